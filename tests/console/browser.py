"""A page in headless Chromium, driven over its debugging pipe with nothing but Python's library."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = 120
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "ArrowRight": 39, "ArrowLeft": 37, " ": 32, "Home": 36, "End": 35, "a": 65, "2": 50, "3": 51}
TEXTS = {"Enter": "\r", " ": " "}
CTRL, SHIFT, ALT = 2, 8, 1


class Browser:
    """One browser with one page. What the page logs as an error, and what its policy blocks, is in `complaints`."""

    def __init__(self, program="chromium"):
        self.profile = tempfile.mkdtemp()
        to_read, self.writing = os.pipe()
        self.reading, to_write = os.pipe()

        def connect():
            # The browser reads commands from 3 and writes answers to 4.
            reading, writing = os.dup(to_read), os.dup(to_write)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--hide-scrollbars", "--no-first-run",
                 "--disable-background-networking", "--force-color-profile=srgb", f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen([program, *flags], preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.events, self.complaints, self.number, self.session = b"", [], [], 0, None
        targets = self.command("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.command("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.command(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def command(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        end = time.time() + PATIENCE
        while True:
            answer = self.message(end)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def message(self, end):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.reading], [], [], max(0, end - time.time()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.reading, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has gone")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            entry = parameters["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}")
        if method == "Network.requestWillBeSent":
            self.events.append(parameters["request"]["url"])
        return message

    def size(self, width, height, dark=False):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.command("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def evaluate(self, script):
        answer = self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def until(self, script, patience=PATIENCE):
        """Waits until the script gives something true."""
        end = time.time() + patience
        while True:
            if self.evaluate(f"Boolean({script})"):
                return
            if time.time() > end:
                raise AssertionError(f"it does not come true: {script}\n{self.evaluate('document.body.innerText')}")
            time.sleep(0.05)

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def type(self, text):
        """Types letter by letter, as a keyboard does."""
        for letter in text:
            if letter == "\n":
                self.key("Enter")
            else:
                self.command("Input.dispatchKeyEvent", type="char", text=letter)

    def key(self, key, modifiers=0):
        code = {"key": key, "code": key if len(key) > 1 else f"Key{key.upper()}", "windowsVirtualKeyCode": KEYS[key], "modifiers": modifiers}
        if key in TEXTS and not modifiers & ~SHIFT:
            code["text"] = TEXTS[key]
        self.command("Input.dispatchKeyEvent", type="keyDown", **code)
        self.command("Input.dispatchKeyEvent", type="keyUp", **{**code, "text": ""})

    def click(self, selector):
        place = self.evaluate(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'nearest'}}); "
                              "const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()")
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"]:
            self.command("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="none" if kind == "mouseMoved" else "left", clickCount=1)

    def picture(self, path):
        data = self.command("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
