// A page that stays connected: it listens to /events, says that it is there at /here, and writes what it is told to.
//
// Each child of /events is written once by somebody else, so in one session it may be shown once: in the first value or
// in a push after it. What breaks that is kept in localStorage, where a reload does not lose it.
"use strict";

const RECONNECT_MIN = 1000; // ms (2.4)
const RECONNECT_MAX = 300000;
const RECONNECT_MULTIPLIER = 1.3;
const RECONNECT_RESET = 30000; // ms up, after which delays begin anew

class Page {
  constructor(place) {
    this.place = place;
    this.life = Math.random().toString(36).slice(2);
    this.lives = Number(localStorage.getItem("lives") || 0) + 1;
    localStorage.setItem("lives", String(this.lives));
    this.requests = 0; // HTTP requests of long polling
    this.messages = 0; // data messages, both ways
    this.upgrades = 0;
    this.sessions = [];
    this.delay = RECONNECT_MIN;
    this.nextRequest = 1;
    this.isConnected = false;
    this.events = {};
    this.pending = new Map(); // writes without an acknowledgement: sent again after a reconnect
    this.acknowledged = 0;
    this.latencies = [];
  }

  violation(text) {
    const known = JSON.parse(localStorage.getItem("violations") || "[]");
    known.push(`life ${this.lives}, session ${this.sessions.length}: ${text}`);
    localStorage.setItem("violations", JSON.stringify(known));
  }

  get violations() {
    return JSON.parse(localStorage.getItem("violations") || "[]");
  }

  // Milliseconds from a write to its event here, by two clocks of one machine.
  get latency() {
    const sorted = [...this.latencies].sort((one, other) => one - other);
    return sorted[Math.floor(sorted.length / 2)];
  }

  // What the test asks for.
  get report() {
    return {
      isConnected: this.isConnected, transport: this.connection && this.connection.transport, events: this.events,
      sessions: this.sessions, violations: this.violations, delay: this.delay, upgrades: this.upgrades,
      latency: this.latency, requests: this.requests, messages: this.messages, acknowledged: this.acknowledged, waiting: this.pending.size,
      failed: localStorage.getItem(FAILURE_FLAG) === "true", lives: this.lives, life: this.life,
    };
  }

  connect() {
    this.attempted = Date.now();
    this.waiting = [];
    this.hasData = false;
    this.connection = new Connection(this.place, this.session, {
      onReady: (hello) => this.ready(hello),
      onData: (body) => this.take(body),
      onEnd: () => this.lost(),
    });
  }

  ready(hello) {
    this.session = hello.s;
    this.established = Date.now();
    this.sessions.push(this.connection.transport);
    if (this.sessions.length === 1) this.ask("s", {c: {"sdk.page.1-0-0": 1}});
    this.ask("q", {p: "/events", h: ""}, () => {
      this.hasData = true;
      this.isConnected = true;
    });
    this.ask("o", {p: `/here/${this.life}`, d: null});
    this.ask("p", {p: `/here/${this.life}`, d: true});
    for (const [key, value] of this.pending) this.put(key, value);
  }

  lost() {
    this.isConnected = false;
    const now = Date.now();
    if (this.established && now - this.established > RECONNECT_RESET) this.delay = RECONNECT_MIN;
    this.established = undefined;
    const wait = Math.max(0, this.delay - (now - this.attempted));
    this.delay = Math.min(RECONNECT_MAX, this.delay * RECONNECT_MULTIPLIER);
    setTimeout(() => this.connect(), Math.random() * wait);
  }

  // Requests

  ask(action, body, done = () => {}) {
    const r = this.nextRequest++;
    this.waiting.push({r, done});
    this.messages++;
    this.connection.send({t: "d", d: {r, a: action, b: body}});
  }

  put(key, value) {
    this.ask("p", {p: `/from-page/${key}`, d: value}, () => {
      if (this.pending.delete(key)) this.acknowledged++;
    });
  }

  write(key, value) {
    this.pending.set(key, value);
    if (this.connection && this.connection.state === "connected") this.put(key, value);
  }

  take(body) {
    this.messages++;
    if (body.r !== undefined) {
      const oldest = this.waiting.shift();
      if (!oldest || oldest.r !== body.r) this.violation(`an answer to ${body.r} out of turn`);
      else if (body.b.s !== "ok") this.violation(`refused: ${JSON.stringify(body)}`);
      else oldest.done();
      return;
    }
    const {p: path, d: value} = body.b;
    if (path === "events" && body.a === "d") {
      if (this.hasData) this.violation("the whole value twice");
      this.events = {...(value || {})};
      this.hasData = true;
      return;
    }
    const changes = body.a === "m" ? Object.entries(value) : [[path.slice("events/".length), value]];
    for (const [key, change] of changes) {
      if (!this.hasData) this.violation(`${key} before the first value`);
      if (key in this.events) this.violation(`${key} twice`);
      this.events[key] = change;
      if (change && change.at) this.latencies.push(Date.now() - change.at);
    }
  }
}

const options = new URLSearchParams(location.search);
window.page = new Page({host: options.get("host"), ns: options.get("ns")});
window.page.connect();
