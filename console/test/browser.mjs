// One browser for one scenario: a page that reports everything that a reader should never meet.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export function check(isTrue, sentence) {
  if (!isTrue) throw new Error(sentence);
}

export function equal(found, expected, what) {
  check(JSON.stringify(found) === JSON.stringify(expected), `${what}: ${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
}

export class Visit {
  constructor(page, base, screenshots) {
    this.page = page;
    this.base = base;
    this.screenshots = screenshots;
    this.problems = [];
    page.on("console", (message) => {
      // A refused call is a line of its own in the browser's console; pages show it in words.
      const isRefusal = message.text().startsWith("Failed to load resource");
      if (["error", "warning"].includes(message.type()) && !isRefusal) this.problems.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => this.problems.push(`script: ${error.message}`));
    page.on("request", (request) => {
      if (!request.url().startsWith(base)) this.problems.push(`a request to ${request.url()}`);
    });
  }

  async open(path) {
    await this.page.goto(`${this.base}/console/#/${path}`);
  }

  async signIn(token) {
    await this.page.getByLabel("Token").fill(token);
    await this.page.getByRole("button", { name: "Sign in" }).click();
  }

  async see(text) {
    await this.page.getByText(text).first().waitFor();
  }

  /** Of the messages that are listed: ledger:entry. */
  async positions() {
    const found = await this.page.locator("summary code").allInnerTexts();
    return found.map((each) => each.split(".")[0]);
  }

  /** What axe finds against the rules of WCAG 2.1 A and AA, and its best practices. */
  async checkAccessible(where) {
    // Playwright's evaluation is not bound to the page's policy, which lets no other script in.
    await this.page.evaluate(AXE);
    const found = await this.page.evaluate(async () => {
      const { violations } = await globalThis.axe.run(document, {
        runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
      });
      return violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).slice(0, 3).join("; ")}`);
    });
    check(found.length === 0, `${where}: ${found.join(" | ")}`);
  }

  async picture(name) {
    if (!this.screenshots) return;
    await this.page.evaluate(() => window.scrollTo(0, 0));
    await this.page.screenshot({ path: `${this.screenshots}/console-${name}.png` });
  }
}

export async function visit({ base, screenshots, size = { width: 1280, height: 800 }, dark = false, context: more = {} }, scenario) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
  try {
    const context = await browser.newContext({ viewport: size, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce", ...more });
    context.setDefaultTimeout(30_000);
    const page = await context.newPage();
    const visitor = new Visit(page, base, screenshots);
    try {
      await scenario(visitor, page, context);
    } catch (error) {
      const text = await page.locator("body").innerText().catch(() => "");
      throw new Error(`${error.message}\n--- the page:\n${text.slice(0, 3000)}\n--- problems: ${visitor.problems.join("; ")}`);
    }
    check(visitor.problems.length === 0, visitor.problems.join("\n"));
  } finally {
    await browser.close();
  }
}
