// A server on a free port, started for a test: `mpnanny serve --http 127.0.0.1:0` or one like it.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

// Resolves, once it listens, to its URL and its process; what it says on stderr is kept in `said`.
export function startHttpServer(command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const said = [];
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stderr }).on('line', line => {
      said.push(line);
      const url = /listening on (http:\S+)/.exec(line)?.[1];
      if (url) resolve({ url, child, said });
    });
    child.once('error', reject);
    child.once('exit', code => reject(new Error(`${command} ended with ${code}: ${said.join('\n')}`)));
  });
}

// Ends it as a user would, and says how that went: its exit code.
export function stopHttpServer({ child }) {
  return new Promise(resolve => {
    if (child.exitCode !== null || child.signalCode !== null) return void resolve(child.exitCode ?? child.signalCode);
    child.once('exit', (code, signal) => resolve(code ?? signal));
    child.kill('SIGTERM');
  });
}
