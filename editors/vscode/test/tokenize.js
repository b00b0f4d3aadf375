// Tokenizes files as VS Code does: node tokenize.js FILE… prints, as JSON, for each file and line the tokens
// with their scopes.

const fs = require("fs");
const path = require("path");
const oniguruma = require("vscode-oniguruma");
const textmate = require("vscode-textmate");

const FOLDER = path.join(__dirname, "..");
const contributed = require(path.join(FOLDER, "package.json")).contributes;

async function main(files) {
  const wasm = require.resolve("vscode-oniguruma/release/onig.wasm");
  await oniguruma.loadWASM(fs.readFileSync(wasm).buffer);
  const registry = new textmate.Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async (scope) => {
      const { path: file } = contributed.grammars.find((grammar) => grammar.scopeName === scope);
      return textmate.parseRawGrammar(fs.readFileSync(path.join(FOLDER, file), "utf8"), file);
    },
  });
  const tokenized = {};
  for (const file of files) {
    const language = contributed.languages.find(({ extensions }) => extensions.includes(path.extname(file)));
    const { scopeName } = contributed.grammars.find((grammar) => grammar.language === language.id);
    const grammar = await registry.loadGrammar(scopeName);
    let state = textmate.INITIAL;
    tokenized[file] = fs.readFileSync(file, "utf8").split("\n").map((line) => {
      const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
      state = ruleStack;
      return tokens.map((token) => [line.slice(token.startIndex, token.endIndex), token.scopes.at(-1)]);
    });
  }
  process.stdout.write(JSON.stringify(tokenized));
}

main(process.argv.slice(2));
