#!/usr/bin/env node
// Runs the binary of the platform package that npm installed.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@weft-automation/weft-${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${name}/weft`);
} catch {
  console.error(`weft: the package ${name} is not installed. Weft runs on Linux and macOS, on x64 and arm64. ` +
    "If this machine is one of these, reinstall without --omit=optional.");
  process.exit(1);
}

// Weft's examples start with the name by which it was started. Users of npx cannot run the binary's path.
const argv0 = process.env.npm_command === "exec" ? "npx weft" : "weft";
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit", argv0 });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // A terminal sends Ctrl-C to both processes. Weft must not get it twice: the second one kills it.
  process.on(signal, () => { if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal); });
}
child.on("error", (error) => { console.error(`weft: start ${binary}: ${error.message}`); process.exitCode = 1; });
child.on("exit", (code, signal) => { process.exitCode = signal ? 128 + constants.signals[signal] : code; });
