// A person at the console: a real browser that does one of the journeys below.
//
// node --input-type=module -e SOURCE JOURNEY ORIGIN WHO MORE: WHO is a one-time link or a key, and
// MORE is JSON for the journey. The last line says what was seen, and what no page may do.
import chromium from "@sparticuz/chromium";
import { readFileSync } from "node:fs";
import { chromium as driver } from "playwright-core";

const [journey, origin, who, more] = process.argv.slice(-4);
const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
const faults = [];
const browser = await driver.launch({
  executablePath: await chromium.executablePath(),
  args: [...chromium.args, "--no-sandbox", "--disable-background-networking"],
  headless: true,
});

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const note = (what) => faults.push(`${page.url()}: ${what}`);
  page.on("console", (it) => it.type() === "error" && note(it.text()));
  page.on("pageerror", (it) => note(it.message));
  page.on("request", (it) => it.url().startsWith(origin) || note(`asks for ${it.url()}`));
  page.on("response", (it) => it.status() >= 400 && note(`${it.status()} for ${it.url()}`));
  // A page gives up a stream when it is left, or has read its result.
  const isStream = (it) => it.url().endsWith("/updates") || it.headers().accept === "text/event-stream";
  page.on("requestfailed", (it) => isStream(it) || note(`lost ${it.url()}: ${it.failure().errorText}`));
  return page;
}

async function enter(page, following = "/console") {
  if (who.startsWith("/")) {
    await page.goto(`${origin}${who}&next=${encodeURIComponent(following)}`);
    return;
  }
  await page.goto(origin + following);
  await page.getByLabel("API key or token").fill(who);
  await page.keyboard.press("Enter");
  await page.waitForURL(origin + following);
}

async function look(page, path, where) {
  await page.goto(origin + path);
  await page.evaluate(axe);
  for (const it of (await page.evaluate(() => window.axe.run())).violations) {
    faults.push(`${where} ${path}: ${it.id}: ${it.nodes[0].html}`);
  }
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  if (isWide) faults.push(`${where} ${path}: scrolls sideways`);
  return page.title();
}

const journeys = {
  // By keyboard alone: find a tool, fill in its form, send it, read the result.
  async try_tool({ find, tool, fields }) {
    const page = await open();
    await enter(page);
    await page.keyboard.press("/");
    await page.keyboard.type(find);
    await page.locator("#palette a", { hasText: tool }).first().waitFor();
    await page.keyboard.press("ArrowDown");
    while (!(await page.evaluate(() => document.activeElement.textContent)).includes(tool)) {
      await page.keyboard.press("ArrowDown");
    }
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: tool }).waitFor();
    for (const [label, value] of Object.entries(fields)) {
      await page.getByLabel(label).focus();
      await page.keyboard.type(value);
    }
    await page.keyboard.press("Enter");
    return { result: await page.locator("#result").innerText() };
  },
  // By mouse: from the board to the reason why a server is down.
  async find_fault({ server }) {
    const page = await open();
    await enter(page);
    const row = page.locator("tr", { has: page.getByRole("link", { name: server, exact: true }) });
    const board = await row.first().innerText();
    await page.getByRole("link", { name: server, exact: true }).first().click();
    await page.getByRole("heading", { level: 1, name: server }).waitFor();
    return { board, page: await page.locator("main").innerText() };
  },
  // A deep link leads through the login to its page.
  async log_in({ path }) {
    const page = await open();
    await enter(page, path);
    return { url: page.url(), title: await page.title() };
  },
  // A link on another site, which brings no strict cookie.
  async come_from_elsewhere({ site }) {
    const page = await open();
    await enter(page);
    await page.route(site, (route) =>
      route.fulfill({ contentType: "text/html", body: `<a href="${origin}/console/cost">go</a>` }),
    );
    await page.goto(site);
    faults.length = 0;
    await page.getByRole("link").click();
    await page.waitForURL(`${origin}/console/cost`);
    return { title: await page.title() };
  },
  // A page that stays open shows a call of another.
  async stay({ tool, fields, figure }) {
    const page = await open();
    await enter(page);
    await page.context().route("**/favicon.ico", (it) => it.abort());
    const shown = page.locator(".figures div", { hasText: figure }).locator("dd");
    const before = await shown.innerText();
    const other = await page.context().newPage();
    await other.goto(`${origin}/console/tools/${tool}`);
    for (const [label, value] of Object.entries(fields)) await other.getByLabel(label).fill(value);
    await other.keyboard.press("Enter");
    await other.locator("#result").waitFor();
    await page.bringToFront();
    await page.waitForFunction(
      ([name, old]) =>
        [...document.querySelectorAll(".figures div")].some(
          (it) => it.innerText.includes(name) && it.querySelector("dd").innerText !== old,
        ),
      [figure, before],
    );
    return { before, after: await shown.innerText() };
  },
  // Every page in each look, without a fault.
  async look_around({ paths }) {
    const titles = [];
    for (const [colorScheme, width] of [["light", 1280], ["dark", 1280], ["light", 380]]) {
      const page = await open({ colorScheme, viewport: { width, height: 900 }, ...kept });
      if (!kept.storageState) await enter(page);
      kept.storageState = await page.context().storageState();
      for (const it of paths) titles.push(await look(page, it, `${colorScheme} ${width}`));
    }
    return { titles };
  },
  // Without JavaScript every page shows the same.
  async do_without_scripts({ paths }) {
    const page = await open({ javaScriptEnabled: false });
    await enter(page);
    const headings = [];
    for (const it of paths) {
      await page.goto(origin + it);
      headings.push(await page.locator("h1").first().innerText());
    }
    return { headings };
  },
};
const kept = {};
try {
  console.log(JSON.stringify({ ...(await journeys[journey](JSON.parse(more))), faults }));
} finally {
  await browser.close();
}
