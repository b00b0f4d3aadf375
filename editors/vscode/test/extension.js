// Activates the extension with stand-ins for VS Code and its client, and checks what it starts.

const assert = require("assert");
const fs = require("fs");
const Module = require("module");
const os = require("os");
const path = require("path");

const started = [];
const shown = [];
const commands = {};
const settings = { chip: "sm_90a", server: "" };
let folders = [];
let failure;
let changed;

class LanguageClient {
  constructor(id, name, server, options) {
    Object.assign(this, { server, options, running: true });
    started.push(this);
  }
  async start() {
    if (failure) {
      throw failure;
    }
  }
  async stop() {
    this.running = false;
  }
}

const vscode = {
  workspace: {
    getConfiguration: () => ({ get: (name) => settings[name] }),
    get workspaceFolders() {
      return folders;
    },
    onDidChangeConfiguration: (listener) => {
      changed = listener;
    },
  },
  window: { showErrorMessage: (message) => shown.push(message) },
  commands: {
    registerCommand: (name, run) => {
      commands[name] = run;
    },
  },
};

const load = Module._load;
Module._load = (request, ...rest) =>
  ({ vscode, "vscode-languageclient/node": { LanguageClient } })[request] || load(request, ...rest);
const extension = require("../extension.js");

async function main() {
  await extension.activate({ subscriptions: [] });
  assert.deepStrictEqual(started[0].server, { command: "weft", args: ["lsp"] });
  assert.deepStrictEqual(started[0].options.initializationOptions, { chip: "sm_90a" });
  assert.deepStrictEqual(started[0].options.documentSelector.map(({ language }) => language), ["mlir", "ptx"]);

  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "weft-"));
  const within = process.platform === "win32" ? ["Scripts", "weft.exe"] : ["bin", "weft"];
  const program = path.join(folder, ".venv", ...within);
  fs.mkdirSync(path.dirname(program), { recursive: true });
  fs.writeFileSync(program, "");
  folders = [{ uri: { fsPath: folder } }];
  await commands["weft.restart"]();
  assert.deepStrictEqual([started[0].running, started[1].running], [false, true]);
  assert.strictEqual(started[1].server.command, program);

  settings.server = "/opt/weft";
  await changed({ affectsConfiguration: (name) => name === "weft.server" });
  assert.strictEqual(started[2].server.command, "/opt/weft");
  await changed({ affectsConfiguration: (name) => name === "weft.chip" });
  assert.strictEqual(started.length, 3);

  failure = new Error("no such file");
  await commands["weft.restart"]();
  assert.match(shown[0], /'\/opt\/weft lsp' doesn't start: Error: no such file.*pip install 'weft\[lsp\]'/);
  await extension.deactivate();
  assert.strictEqual(started[3].running, false);
  fs.rmSync(folder, { recursive: true });
  console.log("ok");
}

main();
