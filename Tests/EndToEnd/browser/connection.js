// One connection: a transport, and the move from long polling to a WebSocket (realtime §1.6, §2.4).
"use strict";

const UPGRADE_TIMEOUT = 60000; // ms until an upgrade is given up
const HEALTHY_TIMEOUT = 30000; // ms in which a WebSocket must prove healthy
const PING_DELAY = 5000; // ms after the handshake until the first ping

const control = (verb) => ({t: "c", d: {t: verb, d: {}}});

class Connection {
  // `onReady(hello)`, `onData(body)`, `onEnd()`
  constructor(place, previousSession, handlers) {
    this.place = place;
    this.handlers = handlers;
    this.heldData = [];
    this.state = "connecting";
    const canSocket = SocketTransport.isAvailable();
    this.mayUpgrade = canSocket && SocketTransport.hasFailedBefore();
    const First = canSocket && !this.mayUpgrade ? SocketTransport : PollTransport;
    this.primary = this.sendsBy = this.receivesBy = new First(place, {ls: previousSession});
    this.responsesRequired = this.primary.responsesRequired;
    this.isHealthy = this.responsesRequired === 0;
    setTimeout(() => this.openTransport(this.primary), 0);
    if (!this.isHealthy) this.healthyTimer = setTimeout(() => this.isHealthy || this.close(), HEALTHY_TIMEOUT);
  }

  openTransport(transport) {
    if (this.state === "over") return;
    transport.open((message) => this.take(transport, message), () => this.ended(transport));
  }

  get transport() {
    return this.receivesBy.name;
  }

  send(message) {
    if (this.state === "connected") this.sendsBy.send(message);
  }

  take(transport, message) {
    if (this.state === "over") return;
    if (transport === this.receivesBy) this.takePrimary(message);
    else if (transport === this.secondary) this.takeSecondary(message);
  }

  // The primary

  takePrimary(message) {
    if (message.t === "d") {
      this.tookResponse();
      this.handlers.onData(message.d);
      return;
    }
    const {t: verb, d: payload} = message.d;
    if (verb === "h") this.greeted(payload);
    else if (verb === "n") this.endOfPolls();
    else if (verb === "s") this.close(true);
    else if (verb === "o") {
      this.tookResponse();
      this.pingIfNeeded();
    }
  }

  greeted(hello) {
    this.state = "connected";
    this.session = hello.s;
    this.primary.start();
    this.handlers.onReady(hello);
    if (this.mayUpgrade) this.upgrade();
    setTimeout(() => this.pingIfNeeded(), PING_DELAY);
  }

  tookResponse() {
    if (this.isHealthy) return;
    if (--this.responsesRequired > 0) return;
    this.isHealthy = true;
    this.primary.markHealthy();
  }

  pingIfNeeded() {
    if (!this.isHealthy && this.state === "connected") this.send(control("p"));
  }

  // The secondary

  upgrade() {
    this.secondary = new SocketTransport(this.place, {s: this.session});
    this.secondaryResponses = this.secondary.responsesRequired;
    this.openTransport(this.secondary);
    this.upgradeTimer = setTimeout(() => this.secondary && this.secondary.close(), UPGRADE_TIMEOUT);
  }

  takeSecondary(message) {
    if (message.t === "d") {
      this.heldData.push(message.d);
      return;
    }
    const verb = message.d.t;
    if (verb === "r") this.secondary.close();
    if (verb === "o") this.secondaryResponses--;
    if (verb === "a" || verb === "o") {
      if (this.secondaryResponses > 0) this.secondary.send(control("p"));
      else if (this.sendsBy === this.primary) this.move();
    }
  }

  move() {
    this.isHealthy = true;
    this.secondary.markHealthy();
    this.secondary.start();
    this.secondary.send(control("a"));
    this.primary.send(control("n"));
    this.sendsBy = this.secondary;
    this.promote();
  }

  endOfPolls() {
    if (!this.secondary || this.sendsBy !== this.secondary) window.page.violation("an end of transmission too early");
    this.receivesBy = this.secondary;
    for (const held of this.heldData) this.handlers.onData(held);
    this.heldData = [];
    this.promote();
  }

  promote() {
    if (this.sendsBy !== this.secondary || this.receivesBy !== this.secondary) return;
    clearTimeout(this.upgradeTimer);
    const old = this.primary;
    this.primary = this.secondary;
    this.secondary = null;
    window.page.upgrades++;
    old.close();
  }

  // The end

  ended(transport) {
    if (this.state === "over") return;
    if (transport === this.primary) this.close();
    else if (transport === this.secondary) {
      this.secondary = null;
      if (this.sendsBy === transport || this.receivesBy === transport) this.close();
    }
  }

  close(isShutdown = false) {
    if (this.state === "over") return;
    this.state = "over";
    clearTimeout(this.healthyTimer);
    clearTimeout(this.upgradeTimer);
    this.primary.close();
    if (this.secondary) this.secondary.close();
    this.handlers.onEnd(isShutdown);
  }
}
