// The server of the bundle for a client that is not where the code is: starts `mpnanny serve` on another machine by ssh and
// lets it speak to the client through its own stdin and stdout. No dependencies; the Node that the client brings runs it.
//
//   node start.mjs HOST PROGRAM FOLDER…
import { spawn } from "node:child_process";

const [host = "", program = "", ...folders] = process.argv.slice(2);

function fail(text) {
  console.error(`mpnanny: ${text}`);
  process.exit(2);
}

if (host === "" || host.startsWith("-") || /[\s\x00-\x1f\x7f]/.test(host)) {
  fail(`"${host}" names no host. Enter HOST, USER@HOST or a name of ~/.ssh/config in the extension's settings.`);
}
if (folders.length === 0) fail("no folder is named that may be read. Enter one in the extension's settings.");

// One word for the shell over there, in which ~/ stays what it means.
function quoted(word) {
  const home = /^~(?=$|\/)/.exec(word) ? "~" : "";
  const rest = word.slice(home.length);
  return home + (/^[\w@%+=:,./-]*$/.test(rest) ? rest : `'${rest.replaceAll("'", "'\\''")}'`);
}

// ssh asks nobody: whoever reads its questions is a client that cannot answer.
const options = ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=4", "ClearAllForwardings=yes"];
const words = ["-T", ...options.flatMap((option) => ["-o", option]), host, quoted(program || "mpnanny"), "serve"];
for (const folder of folders) words.push("--root", quoted(folder));

const ssh = spawn("ssh", words, { stdio: "inherit" });
ssh.on("error", (error) => fail(`ssh cannot be started (${error.code}). It is part of Windows, macOS and Linux; is it in the PATH?`));
ssh.on("exit", (code, signal) => {
  if (code === 255) {
    console.error(`mpnanny: ssh could not reach ${host}. In a terminal, \`ssh ${host} true\` must end without a question.`);
  } else if (code === 127) {
    console.error(`mpnanny: there is no ${program} on ${host}. Enter its whole path, as \`command -v mpnanny\` there prints it.`);
  }
  process.exit(code ?? (signal ? 1 : 0));
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => ssh.kill(signal));
