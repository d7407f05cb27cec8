// The two transports of a page, as the JavaScript SDK uses them, written from realtime §1.5, §2 alone.
//
// A transport calls `onMessage(message)` with each whole message and `onEnd()` once. It has `open()`, `start()` (the
// handshake has come), `markHealthy()`, `send(message)` and `close()`.
"use strict";

const FAILURE_FLAG = "firebase:previous_websocket_failure";
const CHUNK = 16384; // UTF-16 units in one frame (2.1)
const KEEP_ALIVE = 45000; // ms without sending until the frame `0` (2.3)
const CONNECT_TIMEOUT = 30000; // ms (2.4)

function parameters(values) {
  return Object.entries(values).filter(([, value]) => value !== undefined).map(([name, value]) => `${name}=${value}`).join("&");
}

class SocketTransport {
  static isAvailable() {
    return typeof WebSocket === "function";
  }

  // Set when a WebSocket opens, removed when it has proved healthy: while it is set, pages begin with long polling.
  static hasFailedBefore() {
    return localStorage.getItem(FAILURE_FLAG) === "true";
  }

  constructor(place, options) {
    this.name = "ws";
    this.responsesRequired = 2;
    this.place = place;
    this.options = options; // {ls} or {s}
    this.chunksMissing = 0;
    this.chunks = [];
    this.hasEnded = false;
  }

  open(onMessage, onEnd) {
    this.onMessage = onMessage;
    this.onEnd = onEnd;
    localStorage.setItem(FAILURE_FLAG, "true");
    const query = parameters({v: 5, ns: this.place.ns, ...this.options});
    try {
      this.socket = new WebSocket(`ws://${this.place.host}/.ws?${query}`);
    } catch (error) {
      setTimeout(() => this.end(), 0);
      return;
    }
    this.socket.onmessage = (event) => this.takeFrame(event.data);
    this.socket.onclose = () => this.end();
    this.socket.onerror = () => this.end();
    this.keepAlive();
  }

  start() {}

  markHealthy() {
    localStorage.removeItem(FAILURE_FLAG);
  }

  keepAlive() {
    clearTimeout(this.keepAliveTimer);
    this.keepAliveTimer = setTimeout(() => {
      this.write("0");
      this.keepAlive();
    }, KEEP_ALIVE);
  }

  write(frame) {
    if (this.socket && this.socket.readyState === 1) this.socket.send(frame);
  }

  send(message) {
    this.keepAlive();
    const text = JSON.stringify(message);
    const count = Math.ceil(text.length / CHUNK);
    if (count > 1) this.write(String(count));
    for (let index = 0; index < count; index++) this.write(text.slice(index * CHUNK, (index + 1) * CHUNK));
  }

  takeFrame(text) {
    if (this.hasEnded) return;
    this.keepAlive();
    if (this.chunksMissing > 0) {
      this.chunks.push(text);
      if (--this.chunksMissing > 0) return;
      text = this.chunks.join("");
      this.chunks = [];
    } else if (text.length <= 6 && /^[0-9]+$/.test(text)) {
      this.chunksMissing = Number(text);
      return;
    }
    this.onMessage(JSON.parse(text));
  }

  end() {
    if (this.hasEnded) return;
    this.hasEnded = true;
    clearTimeout(this.keepAliveTimer);
    this.onEnd();
  }

  close() {
    if (this.socket) this.socket.close();
    this.end();
  }
}

const URL_BUDGET = 1870; // characters of data in one URL (1.5.2)
const SEGMENT_HEADER = 30;
const PIECE = URL_BUDGET - SEGMENT_HEADER;
const POLL_PATIENCE = 25000; // ms a poll stays alone

let callbackNumber = 0;

class PollTransport {
  constructor(place, options) {
    this.name = "lp";
    this.responsesRequired = 0;
    this.place = place;
    this.options = options;
    this.serial = Math.floor(Math.random() * 100000000);
    this.segments = [];
    this.nextSegment = 0;
    this.outstanding = new Set();
    this.nextResponse = 0;
    this.early = new Map();
    this.isPolling = false; // `start` was called
    this.sendsPolls = true;
    this.hasEnded = false;
  }

  open(onMessage, onEnd) {
    this.onMessage = onMessage;
    this.onEnd = onEnd;
    this.callback = ++callbackNumber;
    window[`pLPCommand${this.callback}`] = (...call) => this.command(...call);
    window[`pRTLPCB${this.callback}`] = (number, messages) => this.response(number, messages);
    this.connectTimer = setTimeout(() => this.end(), CONNECT_TIMEOUT);
    // Scripts run inside a frame of their own, so that their functions are no globals of the page.
    this.frame = document.createElement("iframe");
    this.frame.style.display = "none";
    document.body.appendChild(this.frame);
    const inside = this.frame.contentWindow.document;
    inside.open();
    inside.write("<html><body></body></html>");
    inside.close();
    this.load({start: "t", ser: this.serial, cb: this.callback, v: 5, ns: this.place.ns, ...this.options}, "", () => {});
  }

  load(values, data, done) {
    window.page.requests++;
    const url = `http://${this.place.host}/.lp?${parameters(values)}${data}`;
    setTimeout(() => {
      if (!this.sendsPolls || this.hasEnded) return;
      const inside = this.frame.contentWindow.document;
      const script = inside.createElement("script");
      script.async = true;
      script.src = url;
      script.onload = () => {
        script.remove();
        done();
      };
      script.onerror = () => {
        this.sendsPolls = false;
        this.end();
      };
      inside.body.appendChild(script);
    }, 0);
  }

  command(verb, first, second) {
    if (this.hasEnded) return;
    clearTimeout(this.connectTimer);
    if (verb === "start") {
      this.id = first;
      this.password = second;
    } else if (verb === "close") {
      this.sendsPolls = false;
      if (first && first >= this.nextResponse) this.closeAfter = first;
      else this.end();
    } else {
      throw new Error(`no such command: ${verb}`);
    }
  }

  response(number, messages) {
    if (this.hasEnded) return;
    if (number < this.nextResponse) return; // sent once more, since its first answer may have been lost
    this.early.set(number, messages);
    while (this.early.has(this.nextResponse) && !this.hasEnded) {
      const ready = this.early.get(this.nextResponse);
      this.early.delete(this.nextResponse);
      for (const message of ready) this.onMessage(message);
      if (this.nextResponse === this.closeAfter) this.end();
      this.nextResponse++;
    }
  }

  // After the handshake: the frame that says goodbye when the page is left, and the first poll.
  start() {
    this.goodbye = document.createElement("iframe");
    this.goodbye.style.display = "none";
    const values = {dframe: "t", id: this.id, pw: this.password, ns: this.place.ns};
    this.goodbye.src = `http://${this.place.host}/.lp?${parameters(values)}`;
    document.body.appendChild(this.goodbye);
    this.isPolling = true;
    while (this.poll());
  }

  markHealthy() {}

  poll() {
    if (!this.isPolling || !this.sendsPolls || this.hasEnded) return false;
    if (this.outstanding.size >= (this.segments.length > 0 ? 2 : 1)) return false;
    const serial = ++this.serial;
    let data = "";
    for (let index = 0; this.segments.length > 0; index++) {
      const next = this.segments[0];
      if (next.piece.length + SEGMENT_HEADER + data.length > URL_BUDGET) break;
      data += `&seg${index}=${next.number}&ts${index}=${next.count}&d${index}=${next.piece}`;
      this.segments.shift();
    }
    this.outstanding.add(serial);
    const again = () => {
      this.outstanding.delete(serial);
      this.poll();
    };
    const timer = setTimeout(again, POLL_PATIENCE);
    this.load({id: this.id, pw: this.password, ser: serial, ns: this.place.ns}, data, () => {
      clearTimeout(timer);
      again();
    });
    return true;
  }

  send(message) {
    const bytes = new TextEncoder().encode(JSON.stringify(message));
    let binary = "";
    for (const byte of bytes) binary += String.fromCharCode(byte);
    const text = btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, ".");
    const count = Math.ceil(text.length / PIECE);
    for (let index = 0; index < count; index++) {
      this.segments.push({number: this.nextSegment++, count, piece: text.slice(index * PIECE, (index + 1) * PIECE)});
      this.poll();
    }
  }

  end() {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.sendsPolls = false;
    clearTimeout(this.connectTimer);
    const {frame, goodbye} = this;
    setTimeout(() => {
      frame.remove();
      if (goodbye) goodbye.remove(); // which runs its handler
    }, 0);
    this.onEnd();
  }

  close() {
    this.end();
  }
}
