// The list of tools follows what is typed; without JavaScript, the form is sent.
const form = document.querySelector("[data-explore]");
const list = document.getElementById("live");
let asked = 0;

form.addEventListener("input", async () => {
  const mine = (asked += 1);
  await new Promise((done) => setTimeout(done, 120));
  if (mine !== asked) return;
  const address = `${location.pathname}?${new URLSearchParams(new FormData(form))}`;
  const response = await fetch(address);
  if (!response.ok || response.redirected || mine !== asked) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  list.replaceChildren(...page.getElementById("live").childNodes);
  document.querySelector("h1 .of").textContent = page.querySelector("h1 .of").textContent;
  history.replaceState(null, "", address);
});
