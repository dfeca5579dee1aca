// The window's page: draws what the app sends, and sends the user's input. Messages: chatapp/desktop/bridge.py.
"use strict";

const SIZES = { least: 8, usual: 14, most: 40 };  // pixels of a character
const LARGEST = 1_000_000;                        // bytes of a dropped file: chatapp/conversation/attachments.py
const FONT = '"Screen", monospace, "Noto Sans Mono CJK SC", "Noto Color Emoji", "Apple Color Emoji", "Segoe UI Emoji"';

const screen = document.getElementById("screen");
const note = document.getElementById("note");
const dark = matchMedia("(prefers-color-scheme: dark)");
const term = new Terminal({
  allowProposedApi: true, cursorBlink: false, customGlyphs: true, fontFamily: FONT, fontSize: SIZES.usual,
  macOptionIsMeta: true, scrollback: 0, screenReaderMode: false, linkHandler: { activate() {} },
  theme: { background: "#00000000" }, allowTransparency: true,
});
const fit = new FitAddon.FitAddon();
let socket = null, token = takeToken(), tries = 0, ended = false, busy = false, wishesNotices = false;

function takeToken() {
  const given = location.hash.slice(1);
  if (given) history.replaceState(null, "", "/");  // keep it out of the address bar and the history
  return given || sessionStorage.getItem("token") || "";
}

// The connection

function connect() {
  socket = new WebSocket(`ws://${location.host}/screen`, ["chatapp", token || "none"]);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => { tries = 0; note.hidden = true; tellSize(true); tellScheme(); tellFocus(); };
  socket.onmessage = ({ data }) => typeof data === "string" ? hear(JSON.parse(data)) : term.write(new Uint8Array(data));
  socket.onclose = () => {
    if (ended) return;
    if (++tries <= 10) setTimeout(connect, 200);  // after a reload the previous connection may still be open
    else tell("This page is not connected to chatapp: it was opened elsewhere, or has ended. To open it: chatapp desktop");
  };
}

function say(message) { if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message)); }
function type(text) { if (socket?.readyState === WebSocket.OPEN) socket.send(new TextEncoder().encode(text)); }
function tell(text) { note.textContent = text; note.hidden = false; }

function hear(message) {
  if (message.type === "token") { token = message.token; sessionStorage.setItem("token", token); }
  if (message.type === "start") { term.options.screenReaderMode = message.reader; zoomTo(message.zoom); }
  if (message.type === "colours") wear(message);
  if (message.type === "busy") busy = message.busy;
  if (message.type === "announce") announce(message.text);
  if (message.type === "end") { ended = true; busy = false; sessionStorage.removeItem("token"); tell(message.text); window.close(); }
}

function wear({ background, text }) {
  document.documentElement.style.setProperty("--background", background);
  document.documentElement.style.setProperty("--text", text);
}

// Window size and font size

let told = "";
function tellSize(anew) {
  fit.fit();
  const now = `${term.cols}x${term.rows}`;
  if (anew || now !== told) say({ type: "resize", columns: term.cols, rows: term.rows });
  told = now;
}

function zoomTo(size) {
  term.options.fontSize = Math.min(SIZES.most, Math.max(SIZES.least, Math.round(size)));
  tellSize(false);
}

function zoom(step) {
  zoomTo(step ? term.options.fontSize + step : SIZES.usual);
  say({ type: "zoom", size: term.options.fontSize });
}

function tellScheme() { say({ type: "scheme", dark: dark.matches }); }
function tellFocus() { say({ type: document.hasFocus() && !document.hidden ? "focus" : "blur" }); }

// Keys without a terminal code, and keys of the window

const ZOOM = { "+": 1, "=": 1, "-": -1, "_": -1, "0": 0 };

function takeKey(event) {
  if (event.type !== "keydown") return event.type !== "keypress" || !isPaste(event);
  const control = (event.ctrlKey || event.metaKey) && !event.altKey;
  if (control && event.key in ZOOM) return taken(event, () => zoom(ZOOM[event.key]));
  if (isPaste(event)) return false;  // the web view pastes, and xterm.js passes it on
  if (control && event.key.toLowerCase() === "c" && (event.shiftKey || event.metaKey)) {
    return taken(event, () => copy(term.getSelection()));
  }
  if (event.key === "Enter" && (event.shiftKey || event.ctrlKey)) {
    return taken(event, () => type(`\x1b[13;${1 + event.shiftKey + 4 * event.ctrlKey}u`));
  }
  return true;
}

function taken(event, act) { event.preventDefault(); act(); return false; }

function isPaste(event) {
  const control = (event.ctrlKey || event.metaKey) && !event.altKey;
  return (control && event.key.toLowerCase() === "v") || (event.shiftKey && event.key === "Insert");
}

// The clipboard: the app copies by OSC 52; requests to read it are never answered

function takeCopy(data) {
  const coded = data.slice(data.indexOf(";") + 1);
  if (coded !== "?") copy(new TextDecoder().decode(Uint8Array.from(atob(coded), (one) => one.charCodeAt(0))));
  return true;
}

async function copy(text) {
  if (!text) return;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    term.focus();
  }
}

// Dropped files and text

function drop(event) {
  event.preventDefault();
  screen.classList.remove("over");
  const files = [...event.dataTransfer.files];
  if (files.length) files.forEach(give);
  else if (event.dataTransfer.getData("text/plain")) term.paste(event.dataTransfer.getData("text/plain"));
  term.focus();
}

async function give(file) {
  if (file.size > LARGEST) return tell(`${file.name} is larger than the 1 MB that can be attached.`);
  say({ type: "file", name: file.name, text: await file.text() });
}

// Notifications while the page is not visible

function announce(text) {
  document.title = "● chatapp";
  if (!("Notification" in window)) return;
  if (Notification.permission === "granted") new Notification("chatapp", { body: text, icon: "/icon.svg" });
  else wishesNotices = Notification.permission === "default";  // requested at the next click, as browsers require
}

function wake() { document.title = "chatapp"; tellFocus(); }

async function start() {
  await Promise.all(['400 14px "Screen"', '700 14px "Screen"'].map((font) => document.fonts.load(font)));
  term.loadAddon(fit);
  term.loadAddon(new UnicodeGraphemesAddon.UnicodeGraphemesAddon());
  term.open(screen);
  term.attachCustomKeyEventHandler(takeKey);
  term.parser.registerOscHandler(52, takeCopy);
  term.onData(type);
  term.onBinary((text) => socket?.send(Uint8Array.from(text, (one) => one.charCodeAt(0))));
  new ResizeObserver(() => tellSize(false)).observe(screen);
  dark.addEventListener("change", tellScheme);
  addEventListener("focus", () => { wake(); term.focus(); });
  addEventListener("blur", tellFocus);
  document.addEventListener("visibilitychange", tellFocus);
  document.addEventListener("click", () => { if (wishesNotices) Notification.requestPermission(); wishesNotices = false; });
  document.addEventListener("dragover", (event) => { event.preventDefault(); screen.classList.add("over"); });
  document.addEventListener("dragleave", () => screen.classList.remove("over"));
  document.addEventListener("drop", drop);
  document.addEventListener("contextmenu", (event) => event.preventDefault());
  addEventListener("beforeunload", (event) => { if (busy) event.preventDefault(); });
  term.focus();
  fit.fit();
  connect();
}

start();
