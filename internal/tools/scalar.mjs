// Builds the script of the docs' API reference from the npm package, in the version that
// package.json names, and reports whether the committed script is current.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

const here = import.meta.dirname;
const { scalar } = JSON.parse(readFileSync(join(here, 'package.json'))).config;
const folder = mkdtempSync(join(tmpdir(), 'scalar-'));
try {
  execFileSync('npm', ['pack', '--silent', `@scalar/api-reference@${scalar}`], { cwd: folder });
  execFileSync('tar', ['-xzf', `scalar-api-reference-${scalar}.tgz`, 'package/dist/browser/standalone.js'], { cwd: folder });
  const script = readFileSync(join(folder, 'package/dist/browser/standalone.js'));
  const target = join(here, `../web/portal/assets/scalar-${scalar}.js.gz`);
  const fresh = existsSync(target) && gunzipSync(readFileSync(target)).equals(script);
  if (!fresh) writeFileSync(target, execFileSync('gzip', ['-9n'], { input: script, maxBuffer: 1 << 26 }));
  console.log(`${fresh ? 'fresh' : 'REBUILT: set its name in assets.go and its checksum in assets/README.md'}: ${createHash('sha256').update(script).digest('hex')}`);
  process.exitCode = fresh ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true });
}
