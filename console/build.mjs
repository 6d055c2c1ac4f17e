// Builds the console into the package. `--check` builds beside and fails where the result differs.
import { build } from "esbuild";
import { mkdtemp, readFile, rm, copyFile, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const shipped = join(here, "..", "src", "magnetar", "admin", "static");
const files = ["app.js", "app.css", "index.html", "icon.svg"];

async function make(target) {
  await mkdir(target, { recursive: true });
  await build({
    absWorkingDir: here,
    entryPoints: ["src/app.tsx"],
    outdir: target,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
  });
  for (const name of ["index.html", "icon.svg"]) await copyFile(join(here, "src", name), join(target, name));
}

if (process.argv.includes("--check")) {
  const target = await mkdtemp(join(tmpdir(), "console-"));
  try {
    await make(target);
    for (const name of files) {
      const [made, kept] = await Promise.all([readFile(join(target, name)), readFile(join(shipped, name))]);
      if (!made.equals(kept)) {
        console.error(`console: ${name} in the package is not what the sources make: run \`make console\``);
        process.exitCode = 1;
      }
    }
  } finally {
    await rm(target, { recursive: true });
  }
} else {
  await make(shipped);
}
