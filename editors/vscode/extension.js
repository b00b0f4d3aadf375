// Starts `weft lsp` for .mlir and .ptx documents.

const fs = require("fs");
const path = require("path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const WITHIN_VENV = process.platform === "win32" ? ["Scripts", "weft.exe"] : ["bin", "weft"];

let client;

// The program: that of the settings, of `.venv` in a workspace folder, or the one on PATH.
function program() {
  const chosen = vscode.workspace.getConfiguration("weft").get("server");
  if (chosen) {
    return chosen;
  }
  const folders = vscode.workspace.workspaceFolders || [];
  const installed = folders.map((folder) => path.join(folder.uri.fsPath, ".venv", ...WITHIN_VENV));
  return installed.find((file) => fs.existsSync(file)) || "weft";
}

async function start() {
  const command = program();
  client = new LanguageClient(
    "weft",
    "Weft",
    { command, args: ["lsp"] },
    {
      documentSelector: [{ language: "mlir" }, { language: "ptx" }],
      initializationOptions: { chip: vscode.workspace.getConfiguration("weft").get("chip") },
      synchronize: { configurationSection: "weft" },
    }
  );
  try {
    await client.start();
  } catch (error) {
    const advice = "Install it (pip install 'weft[lsp]'), or set weft.server to the path of the program weft.";
    vscode.window.showErrorMessage(`Weft's language server '${command} lsp' doesn't start: ${error}. ${advice}`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running !== undefined) {
    await running.stop().catch(() => undefined); // it may not have started
  }
}

async function activate(context) {
  const restart = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(
    vscode.commands.registerCommand("weft.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("weft.server")) {
        return restart();
      }
    })
  );
  await start();
}

module.exports = { activate, deactivate: stop };
