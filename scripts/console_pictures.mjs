// Photographs pages of the console: node -e SOURCE LINK FOLDER HOME PAGES, where PAGES is
// JSON.
import chromium from "@sparticuz/chromium";
import { writeFileSync } from "node:fs";
import { crc32, deflateSync } from "node:zlib";
import { chromium as driver } from "playwright-core";

const [link, folder, home, pages] = process.argv.slice(-4);
const browser = await driver.launch({
  executablePath: await chromium.executablePath(),
  args: [...chromium.args, "--no-sandbox"],
  headless: true,
});
const page = await browser.newPage({ viewport: { width: 1100, height: 720 }, colorScheme: "light" });
const canvas = await browser.newPage();
await page.goto(link);
const { origin } = new URL(link);
for (const [name, path] of Object.entries(JSON.parse(pages))) {
  const response = await page.goto(origin + path);
  if (!response.ok()) continue;
  // The home differs from run to run, and this browser has no Chinese letters.
  await page.evaluate((home) => {
    document.querySelector("[name=language]").closest("form").hidden = true;
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(home, "~");
  }, home);
  if (name === "tool") {
    await page.getByLabel("timezone").fill("Europe/Oslo");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator("#result").waitFor();
    await page.evaluate(() => scrollTo(0, 0));
  }
  writeFileSync(`${folder}/${name}.png`, await small(await page.screenshot()));
}
await browser.close();

// Returns a picture with its 64 most frequent colours, a third as large.
async function small(picture) {
  const { width, height, palette, pixels } = await canvas.evaluate(async (data) => {
    const blob = await (await fetch(`data:image/png;base64,${data}`)).blob();
    const bitmap = await createImageBitmap(blob);
    const { width, height } = bitmap;
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const values = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
    const counts = new Map();
    for (const it of values) counts.set(it, (counts.get(it) ?? 0) + 1);
    const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 64).map(([it]) => it);
    const parts = (it) => [it & 255, (it >> 8) & 255, (it >> 16) & 255];
    const known = palette.map(parts);
    const nearest = new Map();
    for (const it of counts.keys()) {
      const own = parts(it);
      const far = known.map((other) => other.reduce((sum, at, i) => sum + (at - own[i]) ** 2, 0));
      nearest.set(it, far.indexOf(Math.min(...far)));
    }
    const pixels = Array.from(values, (it) => String.fromCharCode(nearest.get(it))).join("");
    return { width, height, palette: known.flat(), pixels: btoa(pixels) };
  }, picture.toString("base64"));
  const indices = Buffer.from(pixels, "base64");
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1) {
    rows.set(indices.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const chunks = [
    ["IHDR", header],
    ["PLTE", Buffer.from(palette)],
    ["IDAT", deflateSync(rows, { level: 9 })],
    ["IEND", Buffer.alloc(0)],
  ];
  return Buffer.concat([
    Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]),
    ...chunks.map(([kind, data]) => {
      const chunk = Buffer.alloc(data.length + 12);
      chunk.writeUInt32BE(data.length, 0);
      chunk.write(kind, 4);
      chunk.set(data, 8);
      chunk.writeUInt32BE(crc32(chunk.subarray(4, data.length + 8)), data.length + 8);
      return chunk;
    }),
  ]);
}
