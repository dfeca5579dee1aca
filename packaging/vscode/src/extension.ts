/** The extension: runs `chatapp lsp`, and shows in the status bar how it fares. */

import { execFile } from "node:child_process";
import * as vscode from "vscode";
import { DidChangeConfigurationNotification, LanguageClient, type LanguageClientOptions, State } from "vscode-languageclient/node";

let client: LanguageClient | undefined;
let status: vscode.StatusBarItem;
let log: vscode.LogOutputChannel;
let turn: Promise<void> = Promise.resolve(); // one start or stop at a time

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  log = vscode.window.createOutputChannel("chatapp", { log: true });
  status = vscode.window.createStatusBarItem("chatapp.status", vscode.StatusBarAlignment.Right, 100);
  status.name = "chatapp";
  const commands: Record<string, () => unknown> = {
    "chatapp.trigger": () => vscode.commands.executeCommand("editor.action.inlineSuggest.trigger"),
    "chatapp.toggle": toggle,
    "chatapp.restart": restart,
    "chatapp.showLog": () => log.show(),
  };
  for (const [name, command] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(name, command));
  }
  context.subscriptions.push(
    log,
    status,
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("chatapp.enabled") || change.affectsConfiguration("chatapp.path")) void restart();
      else if (change.affectsConfiguration("chatapp")) void tellSettings();
    }),
  );
  status.show();
  await restart();
}

export async function deactivate(): Promise<void> {
  await stop();
}

function settings(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration("chatapp");
}

/** Switch on or off, for this folder where it says so itself, else everywhere. */
function toggle(): Thenable<void> {
  const scope = settings().inspect("enabled")?.workspaceValue === undefined ? "Global" : "Workspace";
  return settings().update("enabled", !settings().get("enabled"), vscode.ConfigurationTarget[scope]);
}

/** Stop the server if it runs, and start it unless it is switched off. */
function restart(): Promise<void> {
  turn = turn.then(stop).then(start).catch((error) => tellFailure(String(error)));
  return turn;
}

async function stop(): Promise<void> {
  const running = client;
  client = undefined;
  if (running?.state === State.Running) await running.stop();
  await running?.dispose();
}

async function start(): Promise<void> {
  if (!settings().get<boolean>("enabled")) return showState("off");
  const path = settings().get<string>("path") || "chatapp";
  showState("starting");
  const refusal = await tryCommand(path);
  if (refusal) return tellFailure(refusal);
  const started = new LanguageClient("chatapp", "chatapp", { command: path, args: ["lsp"] }, clientOptions());
  client = started;
  started.onDidChangeState(({ newState }) => {
    if (client === started) showState(newState === State.Running ? "running" : newState === State.Starting ? "starting" : "stopped");
  });
  await started.start();
}

function clientOptions(): LanguageClientOptions {
  return {
    documentSelector: ["file", "untitled", "vscode-notebook-cell"].map((scheme) => ({ scheme })),
    outputChannel: log,
    initializationOptions: readServerSettings(),
  };
}

/** The settings that are the server's, and not this extension's. */
function readServerSettings(): Record<string, unknown> {
  return Object.fromEntries(["model", "threshold", "lines", "folder"].map((name) => [name, settings().get(name)]));
}

async function tellSettings(): Promise<void> {
  if (client?.state !== State.Running) return;
  await client.sendNotification(DidChangeConfigurationNotification.type, { settings: readServerSettings() });
}

/** Why this command cannot be started, in words for the user; undefined where it can. */
function tryCommand(path: string): Promise<string | undefined> {
  return new Promise((resolve) =>
    execFile(path, ["lsp", "--help"], { timeout: 30_000 }, (error, _, stderr) => {
      if (!error) resolve(undefined);
      else if (error.code === "ENOENT" || error.code === "EACCES")
        resolve(
          `The command ${path} was not found. Install chatapp (its docs/install.md tells how), ` +
            "or put its whole path into the setting chatapp.path; `which chatapp` in a terminal tells it.",
        );
      else resolve(`${path} lsp does not start: ${stderr.trim().split("\n").at(-1) || error.message}`);
    }),
  );
}

function tellFailure(message: string): void {
  log.error(message);
  showState("failed", message);
  void vscode.window.showErrorMessage(`chatapp: ${message}`, "Open Settings", "Try Again").then((answer) => {
    const opening = vscode.env.remoteName ? "openRemoteSettings" : "openSettings2"; // a path is the machine's own
    if (answer === "Open Settings") void vscode.commands.executeCommand(`workbench.action.${opening}`, { query: "chatapp.path" });
    if (answer === "Try Again") void restart();
  });
}

const STATES = {
  off: ["$(circle-slash) chatapp", "Off: no server runs."],
  starting: ["$(sync~spin) chatapp", "Starting."],
  running: ["$(check) chatapp", "Completions come from this machine."],
  stopped: ["$(warning) chatapp", "The server has ended; the log tells why."],
  failed: ["$(warning) chatapp", "It could not be started."],
} as const;

/** Show in the status bar how the server fares; a click switches it on or off, or tries again. */
function showState(state: keyof typeof STATES, detail: string = STATES[state][1]): void {
  const broken = state === "failed" || state === "stopped";
  status.text = STATES[state][0];
  status.tooltip = new vscode.MarkdownString(
    `${detail}\n\n[Complete here](command:chatapp.trigger) · [Switch on or off](command:chatapp.toggle) · ` +
      "[Restart](command:chatapp.restart) · [Log](command:chatapp.showLog)",
  );
  status.tooltip.isTrusted = true;
  status.accessibilityInformation = { label: `chatapp: ${detail}` };
  status.command = broken ? "chatapp.restart" : "chatapp.toggle";
  status.backgroundColor = broken ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  void vscode.commands.executeCommand("setContext", "chatapp.running", state === "running");
}
