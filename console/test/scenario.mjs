// What people do with the console. Run by tests/console, which starts the brokers and their clients:
// node scenario.mjs NAME '{"base": "http://…"}'; each step of the test's own is asked for on standard output.
import { createInterface } from "node:readline";
import { check, equal, visit } from "./browser.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Ask the test to do something with its clients, and wait until it is done. */
async function ask(step) {
  process.stdout.write(`${step}\n`);
  equal((await lines.next()).value, "done", step);
}

async function call(base, method, path) {
  const answer = await fetch(base + path, { method });
  check(answer.ok, `${method} ${path}: ${answer.status}`);
}

const ORDERS = "topic/topic/public/default/orders";

/** [page, what is there when it is loaded, the name of its picture if the guide has one] */
const PAGES = [
  ["overview", ["Published", "Delivered", "Lag, in messages", "Stored", "Busiest topics", "Connections", "Event loop late", "Write and sync", "healthy"], "overview"],
  ["topics", ["topic://public/default/orders", "Lag, messages"], "topics"],
  [ORDERS, ["Decisions of the controller", "Why this layout", "After a split", "billing reads", "How it scales itself"], "scalable"],
  [`${ORDERS}/subscriptions`, ["New subscription", "billing-1", "billing-2", "of every segment"]],
  [`${ORDERS}/messages`, ["Looking does not acknowledge anything"], "messages"],
  [`${ORDERS}/schema`, ["Version 0", "Would another schema fit?"]],
  [`${ORDERS}/policies`, ["where each value comes from"]],
  ["topic/persistent/public/default/ledger", ["Partitions", "ledger-partition-2", "old-books"]],
  ["topic/persistent/public/default/ledger/migration", ["The new layout"]],
  ["tenants", ["public/default"]],
  ["namespace/public/default", ["Grants"]],
  ["clients", ["By version", "v4", "V5", "old-books"]],
  ["brokers", ["this one"]],
  ["configuration", ["webConsoleEnabled"]],
  ["transactions", ["Open transactions"]],
  ["rest", ["Words of the path"]],
  ["reports", ["sent nowhere"]],
];

const scenarios = {
  async pages(options) {
    await visit(options, async (visitor, page) => {
      for (const [path, texts, name] of PAGES) {
        await visitor.open(path);
        for (const text of texts) await visitor.see(text);
        await visitor.checkAccessible(path);
        // Pictures show a broker at work: rates that were measured, and how they moved.
        if (options.screenshots && ["overview", "scalable"].includes(name)) await page.waitForTimeout(30_000);
        if (options.screenshots && name === "messages") await page.locator("summary").nth(1).click();
        if (name) await visitor.picture(name);
      }
      await visitor.open(`${ORDERS}/schema`);
      await page.getByLabel("Type").selectOption("JSON");
      await page.getByLabel("Definition").fill('{"type": "record", "name": "Sale", "fields": []}');
      await page.getByRole("button", { name: "Check, without adding it" }).click();
      await visitor.see("Not compatible by FULL");
      // A segment is coloured by how near its rate is to the one at which it splits, and as wide as its range.
      await visitor.open(ORDERS);
      await page.waitForFunction(() => [...document.querySelectorAll(".segment.active .body")].some((body) => /--hot\) ([1-9]\d?|100)%/.test(body.getAttribute("fill"))));
      const boxes = await page.locator(".segment.active .body").evaluateAll((bodies) => bodies.map((body) => Math.round(Number(body.getAttribute("height")))));
      check(boxes.length === 3 && new Set(boxes).size === 2, `a half and two quarters of the ring, not ${boxes}`);
      equal(await page.locator(".consumer").count(), 2, "consumers beside the picture");
      equal(await page.locator(".consumer .hand").count(), 3, "lines from segments to consumers");
      await visitor.open("rest");
      await page.getByLabel("Find").fill("get brokers ready");
      await page.getByRole("button", { name: "/admin/v2/brokers/ready" }).click();
      await page.getByRole("button", { name: "Call" }).click();
      equal(await page.getByRole("status").last().innerText(), "200", "a call that was tried");
      await visitor.checkAccessible("a call that was tried");
      await visitor.open("nowhere");
      await visitor.see("There is no page nowhere");
      equal(await page.evaluate(() => document.title), "Magnetar console", "the title");
    });
  },

  async cluster(options) {
    const { brokers, bookies, topic, elsewhere } = options;
    // Any broker shows every topic; it is changed where it is served.
    const path = `topic/${topic.replace("://", "/")}`;
    await visit({ ...options, base: elsewhere }, async (visitor, page) => {
      await visitor.open(path);
      await page.getByRole("link", { name: "change it in that broker's console" }).waitFor();
      equal(await page.getByRole("link", { name: "Migration" }).count(), 0, "a migration where the topic is not served");
      await page.getByRole("link", { name: "Messages" }).click();
      await page.locator("summary").getByText("stored").waitFor();
    });
    await visit(options, async (visitor, page) => {
      await visitor.open("overview");
      const table = page.getByRole("group", { name: "Brokers" });
      for (const name of brokers) await table.getByRole("row", { name }).getByText("healthy").waitFor();
      await visitor.checkAccessible("the overview of a cluster");
      await visitor.open(path);
      await page.getByRole("link", { name: "Migration" }).waitFor();
      await visitor.open("brokers");
      for (const name of brokers) await page.getByRole("link", { name }).waitFor();
      equal(await page.getByText("leader", { exact: true }).count(), 1, "leaders");
      equal(await page.getByText("this one", { exact: true }).count(), 1, "brokers that answer");
      for (const name of bookies) await page.getByRole("group", { name: "Bookies" }).getByText(name).waitFor();
      await visitor.checkAccessible("the brokers of a cluster");
      await visitor.open("transactions");
      await visitor.see("Coordinators");
    });
  },

  async dark_and_small(options) {
    const size = { width: 390, height: 800 };
    await visit({ ...options, size, dark: true }, async (visitor, page) => {
      for (const [path, texts] of PAGES) {
        await visitor.open(path);
        for (const text of texts) await visitor.see(text);
        await visitor.checkAccessible(`${path}, dark and small`);
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        check(width <= 390, `${path} is ${width} wide on a screen of 390`);
      }
      await visitor.open(ORDERS);
      await visitor.see("Why this layout");
      const colour = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      equal(colour, "rgb(17, 19, 27)", "the dark page");
    });
  },

  async live(options) {
    await visit(options, async (visitor, page) => {
      await visitor.open("topics");
      await visitor.see("live");
      await ask("make a topic");
      await visitor.see("persistent://public/default/made-later");
      const row = page.getByRole("row", { name: /made-later/ });
      await row.getByText("7", { exact: true }).waitFor(); // the lag, in messages
      await page.getByLabel("Find").fill("made-");
      await visitor.see("1 topic");
      await page.getByRole("link", { name: /made-later/ }).click();
      await page.getByRole("link", { name: "Subscriptions" }).click();
      await page.getByRole("row", { name: /reader/ }).getByText("7", { exact: true }).waitFor();
      await ask("read three");
      await page.getByRole("row", { name: /reader/ }).getByText("4", { exact: true }).waitFor();
    });
  },

  async split(options) {
    await visit(options, async (visitor, page) => {
      await visitor.open("topic/topic/public/default/river");
      await visitor.see("1 active segment, epoch 0");
      const segment = page.getByRole("button", { name: /^Segment 0 · 0000–ffff/ });
      await segment.focus();
      await page.keyboard.press("Enter"); // by keyboard alone
      await page.getByRole("button", { name: "Split segment 0" }).click();
      await visitor.see("Segments 1 (0000-7fff), 2 (8000-ffff) take over");
      await visitor.checkAccessible("the dialog of a split");
      await visitor.picture("split");
      await page.getByRole("button", { name: "Split", exact: true }).click();
      // Nothing is reloaded: the picture follows the broker.
      await page.getByRole("button", { name: /^Segment 1 · 0000–7fff/ }).waitFor();
      await page.getByRole("button", { name: /^Segment 2 · 8000–ffff/ }).waitFor();
      await page.getByRole("button", { name: /^Segment 0, sealed/ }).waitFor();
      // Neither is it when another changes the layout.
      await call(options.base, "POST", "/admin/v2/scalable/public/default/river/split/2?at=0xc000");
      await page.getByRole("button", { name: /^Segment 4 · c000–ffff/ }).waitFor();
      await page.getByRole("button", { name: /^Segment 3 · 8000–bfff/ }).click();
      await page.getByRole("button", { name: "Merge with 4" }).click();
      await visitor.see("Segment 5 (8000-ffff) takes over");
      await page.getByRole("button", { name: "Merge", exact: true }).click();
      await page.getByRole("button", { name: /^Segment 5 · 8000–ffff/ }).waitFor();
      await page.getByRole("button", { name: "Pre-scale" }).click();
      await page.getByLabel("Active segments", { exact: true }).fill("4");
      await visitor.see("Then: 4");
      await page.getByRole("button", { name: "Scale to 4" }).click();
      await visitor.see("4 active segments");
      await page.getByRole("button", { name: "Override splitCooldownSeconds" }).click();
      await page.getByLabel("Value for this topic").fill("30");
      await page.getByRole("button", { name: "Set", exact: true }).click();
      await page.getByRole("row", { name: /splitCooldownSeconds/ }).getByText("topic", { exact: true }).waitFor();
    });
  },

  async migration(options) {
    await visit(options, async (visitor, page) => {
      await ask("attach a v4 client");
      await visitor.open("topic/persistent/public/default/till/migration");
      await page.getByRole("row", { name: /old-till/ }).first().waitFor();
      const checks = page.getByRole("list", { name: "Checks" }).getByRole("listitem");
      equal(await checks.count(), 7, "checks of the rehearsal");
      equal(await checks.getByText("passed", { exact: true }).count(), 6, "checks that pass");
      await checks.filter({ hasText: "no v4 client is attached" }).getByText("failed", { exact: true }).waitFor();
      await visitor.see("still attached to persistent://public/default/till");
      await page.getByLabel("Type till to go on").fill("till");
      check(await page.getByRole("button", { name: "Make it scalable" }).isDisabled(), "the flip is offered although a client holds v4");
      await visitor.picture("migration");
      await ask("detach the v4 client");
      await page.getByRole("button", { name: "Check again" }).click();
      await visitor.see("Every check passes");
      await page.getByLabel("New segments").fill("3");
      await visitor.see("3 new segments");
      await page.getByRole("button", { name: "Make it scalable" }).click();
      await visitor.see("The flip is done");
      await page.getByText("books: 5 messages left").first().waitFor();
      await page.getByRole("link", { name: "Living picture" }).click();
      await page.locator(".segment.sealed .lag").waitFor(); // the lag, on what the topic was
      await page.getByRole("link", { name: "Migration" }).click();
      await visitor.see("The flip is done");
      await visitor.checkAccessible("the drain");
      await ask("drain");
      await visitor.see("books: drained");
      await page.getByRole("link", { name: "Living picture" }).click();
      await visitor.see("3 active segments");
      await page.getByRole("button", { name: /^Segment 0, sealed, persistent:/ }).waitFor();
    });
  },

  async messages(options) {
    await visit(options, async (visitor, page) => {
      await visitor.open("topic/persistent/public/default/typed/messages");
      await page.getByText('{"name":"ada","amount":3}').click();
      await visitor.see("Schema");
      await page.locator("details[open]").getByText("AVRO", { exact: true }).waitFor();
      await page.getByLabel("Of key").fill("key-1");
      await page.getByRole("button", { name: "Look" }).click();
      await page.locator("summary").nth(0).getByText("key-1").waitFor();
      equal(await page.locator("summary").count(), 1, "messages of one key");
      // From a position: that of the second of four, and from a time, the beginning of this century.
      const second = (await visitor.positions())[0];
      await page.getByLabel("Of key").fill("");
      await page.getByLabel("From").selectOption("position");
      await page.getByLabel("Position, ledger:entry").fill(second);
      await page.getByRole("button", { name: "Look" }).click();
      await page.waitForFunction(() => document.querySelectorAll("summary").length === 3);
      equal((await visitor.positions())[0], second, "the first from a position");
      await page.getByLabel("From").selectOption("time");
      await page.getByLabel("Time").fill("2001-01-01T00:00:00");
      await page.getByRole("button", { name: "Look" }).click();
      await page.waitForFunction(() => document.querySelectorAll("summary").length === 4);
      await page.getByLabel("From").selectOption("latest");
      await page.getByRole("button", { name: "Publish one" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Key").fill("key-9");
      await dialog.getByLabel("Value is").selectOption("json");
      await dialog.getByLabel("Value", { exact: true }).fill('{"name": "by hand", "amount": 9}');
      await dialog.getByRole("button", { name: "Publish" }).click();
      await visitor.see("5 entries");
      await page.getByLabel("Of key").fill("key-9");
      await page.getByRole("button", { name: "Look" }).click();
      await visitor.see('{"name":"by hand","amount":9}');
      await ask("receive what was written by hand");
      // A value that the schema does not fit is refused in words.
      await page.getByRole("button", { name: "Publish one" }).click();
      await dialog.getByLabel("Value is").selectOption("json");
      await dialog.getByLabel("Value", { exact: true }).fill('{"name": 3}');
      await dialog.getByRole("button", { name: "Publish" }).click();
      await visitor.see("does not fit AVRO");
      await dialog.getByRole("button", { name: "Cancel" }).click();
      // The cursor: how many come again is said before.
      await page.getByRole("link", { name: "Subscriptions" }).click();
      await page.getByRole("row", { name: /clerk/ }).getByText("0", { exact: true }).first().waitFor();
      await page.getByRole("button", { name: "Reset clerk" }).click();
      await visitor.see("messages come again");
      await dialog.getByRole("button", { name: "Reset" }).click();
      await page.getByRole("row", { name: /clerk/ }).getByText("5", { exact: true }).first().waitFor();
      await page.getByRole("row", { name: /clerk/ }).getByRole("button", { name: "Skip" }).click();
      await dialog.getByLabel("Entries").fill("2");
      await visitor.see("2 messages are passed over");
      await dialog.getByRole("button", { name: "Skip" }).click();
      await page.getByRole("row", { name: /clerk/ }).getByText("3", { exact: true }).first().waitFor();
      await page.getByRole("row", { name: /clerk/ }).getByRole("button", { name: "Expire" }).click();
      await dialog.getByLabel("Older than, seconds").fill("0");
      await visitor.see("3 messages are passed over");
      await dialog.getByRole("button", { name: "Expire" }).click();
      await page.getByRole("row", { name: /clerk/ }).getByText("0", { exact: true }).first().waitFor();
      // A policy: set for the topic, its origin changes.
      await page.getByRole("link", { name: "Policies" }).click();
      await page.getByRole("row", { name: /^message-ttl/ }).getByText("broker").waitFor();
      await page.getByRole("button", { name: "Edit message-ttl" }).click();
      await page.getByLabel("Value for this topic").fill("120");
      await page.getByRole("button", { name: "Set for this topic" }).click();
      await page.getByRole("row", { name: /^message-ttl/ }).getByText("topic", { exact: true }).waitFor();
      // The same for a namespace, and back.
      await visitor.open("namespace/public/default");
      await page.getByRole("button", { name: "Edit message-ttl" }).click();
      await page.getByLabel("Value for this namespace").fill("300");
      await page.getByRole("button", { name: "Set for this namespace" }).click();
      await page.getByRole("row", { name: /^message-ttl/ }).getByText("namespace", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Edit message-ttl" }).click();
      await page.getByLabel("Value for this namespace").fill("");
      await page.getByRole("button", { name: "Remove the namespace's own value" }).click();
      await page.getByRole("row", { name: /^message-ttl/ }).getByText("broker", { exact: true }).waitFor();
    });
  },

  async administer(options) {
    await visit(options, async (visitor, page) => {
      const dialog = page.getByRole("dialog");
      await visitor.open("tenants");
      await page.getByRole("button", { name: "New tenant" }).click();
      await dialog.getByLabel("Name").fill("acme");
      await dialog.getByRole("button", { name: "Create" }).click();
      await page.getByRole("button", { name: "New namespace in acme" }).click();
      await dialog.getByLabel("Name").fill("sales");
      await dialog.getByRole("button", { name: "Create" }).click();
      await page.getByRole("link", { name: "acme/sales" }).click();
      await page.getByRole("button", { name: "Grant", exact: true }).click();
      await dialog.getByLabel("Role").fill("clerk");
      await dialog.getByLabel("Actions").fill("consume");
      await dialog.getByRole("button", { name: "Grant" }).click();
      await page.getByRole("row", { name: /clerk/ }).getByText("consume").waitFor();
      await page.getByRole("button", { name: "Revoke clerk" }).click();
      await visitor.see("may no longer consume on the topics of acme/sales");
      await visitor.checkAccessible("the dialog of a revocation");
      await dialog.getByRole("button", { name: "Revoke" }).click();
      await visitor.see("No role has a grant here.");
      await page.getByRole("button", { name: "New scalable topic" }).click();
      await dialog.getByLabel("Name").fill("leads");
      await dialog.getByLabel("Initial segments").fill("2");
      await dialog.getByRole("button", { name: "Create" }).click();
      await visitor.see("2 active segments");
      // A key of the configuration: what will happen is said, then it is in force.
      await visitor.open("configuration");
      await page.getByLabel("Find").fill(options.key);
      await page.getByRole("button", { name: `Change ${options.key}` }).click();
      await dialog.getByLabel("Value").fill(options.value);
      await visitor.see("every broker of the cluster uses");
      await dialog.getByRole("button", { name: "Set" }).click();
      await page.getByRole("row", { name: options.key }).locator("strong").getByText(options.value, { exact: true }).waitFor();
      // A transaction that is open is looked at and aborted.
      await ask("begin a transaction");
      await visitor.open("transactions");
      await page.getByLabel("Open for at least, in seconds").fill("0");
      await page.getByRole("button", { name: "Look again" }).click();
      await page.getByRole("button", { name: /^Look at \(/ }).click();
      await visitor.see("no consumer ever sees what it published");
      await dialog.getByRole("button", { name: "Abort it" }).click();
      await visitor.see("None is open.");
      await ask("find it aborted");
    });
  },

  async certificate(options) {
    const { base, certPath, keyPath } = options;
    const context = { ignoreHTTPSErrors: true, clientCertificates: [{ origin: base, certPath, keyPath }] };
    await visit({ ...options, context }, async (visitor, page) => {
      await visitor.open("overview");
      await visitor.see("You are root");
      equal(await page.getByLabel("Token").count(), 0, "forms for a token");
      await visitor.see("This broker");
    });
    // Without one, the page asks.
    await visit({ ...options, context: { ignoreHTTPSErrors: true } }, async (visitor, page) => {
      await visitor.open("overview");
      await page.getByLabel("Token").waitFor();
    });
  },

  async reports(options) {
    await visit(options, async (visitor, page) => {
      await visitor.open("reports");
      await page.getByLabel("Files").setInputFiles(options.files);
      const audit = page.getByRole("region", { name: "findings.json" });
      await audit.getByText("out_of_order").waitFor();
      equal(await audit.locator("dd").allInnerTexts(), ["1,200", "3", "0", "1", "2", "0"], "the audit");
      const verdicts = page.getByRole("region", { name: "verdicts.json" });
      await verdicts.getByRole("columnheader", { name: "overloadedHours" }).waitFor();
      equal(await verdicts.locator("tbody tr").count(), 2, "policies");
      await visitor.checkAccessible("reports");
    });
  },

  async rights(options) {
    const { tokens } = options;
    await visit(options, async (visitor, page, context) => {
      await visitor.open("overview");
      await visitor.see("This broker asks who you are");
      await visitor.checkAccessible("the sign-in");
      await visitor.signIn("wrong");
      await visitor.see("Authentication required");
      await visitor.signIn(tokens.reader);
      await visitor.see("You are reader");
      // What it may not see is not there.
      equal(await page.getByRole("navigation", { name: "Pages" }).getByRole("link").allInnerTexts(), ["Overview", "Topics", "Tenants", "Reports"], "pages of a reader");
      check(!(await page.getByText("This broker").isVisible()), "a reader sees the broker's process");
      await page.getByRole("link", { name: "Topics" }).click();
      await visitor.see("topic://shop/front/orders");
      check(!(await page.getByText("shop/back").isVisible()), "a reader sees another namespace");
      // What it may not do is not offered.
      await page.getByRole("link", { name: "topic://shop/front/orders" }).click();
      await visitor.see("1 active segment");
      await page.getByRole("button", { name: /^Segment 0/ }).click();
      await visitor.see("Parents, children");
      for (const name of [/^Split/, "Pre-scale", /^Override/]) equal(await page.getByRole("button", { name }).count(), 0, `buttons ${name} of a reader`);
      equal(await page.getByRole("link", { name: "Policies" }).count(), 0, "policies of a reader");
      await page.getByRole("link", { name: "Messages" }).click();
      await visitor.see("Looking does not acknowledge anything");
      equal(await page.getByRole("button", { name: "Publish one" }).count(), 0, "a reader publishes");
      // Asked by hand, it is refused in words.
      await page.evaluate(() => (location.hash = "#/topic/topic/shop/back/secret"));
      await visitor.see(/not authorized|may not|Unauthorized|needs/i);
      await page.evaluate(() => (location.hash = "#/clients"));
      await page.getByRole("alert").first().waitFor();
      // The token is in memory and nowhere else.
      const kept = await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]);
      equal(kept, [0, 0, ""], "what the page keeps");
      equal(await context.cookies(), [], "cookies");
      await page.getByRole("button", { name: "Sign out" }).click();
      await visitor.signIn(tokens.root);
      await visitor.see("You are root");
      await page.evaluate(() => (location.hash = "#/topic/topic/shop/back/secret"));
      await page.getByRole("button", { name: /^Segment 0/ }).click();
      await page.getByRole("button", { name: "Split segment 0" }).waitFor();
      await page.reload();
      await page.getByLabel("Token").waitFor();
    });
  },

  async many(options) {
    await visit(options, async (visitor, page) => {
      await visitor.open("topics");
      await visitor.see("10,000 topics");
      const rows = await page.locator(".list tbody tr:not(.space)").count();
      check(rows > 20 && rows <= 200, `${rows} rows are in the page`);
      const list = page.getByRole("region", { name: "Topics" });
      await list.evaluate((element) => (element.scrollTop = element.scrollHeight));
      await visitor.see("persistent://public/default/t-09999");
      await list.evaluate((element) => (element.scrollTop = element.scrollHeight / 2));
      await visitor.see("persistent://public/default/t-05005");
      await page.getByLabel("Find").fill("t-00777");
      await visitor.see("1 topic");
      await page.getByLabel("Find").fill("");
      await visitor.see("10,000 topics");
      await page.getByRole("button", { name: /^Topic/ }).click();
      await visitor.see("persistent://public/default/t-09999");
    });
  },
};

const [name, options] = process.argv.slice(2);
await scenarios[name](JSON.parse(options));
process.stdout.write("end\n");
process.exit(0);
