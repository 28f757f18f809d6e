//! The page in the browser: opens addresses, evaluates expressions, presses keys, takes pictures,
//! and reports what the page complains of.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{super::PATIENCE, Pipe};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// The page that a browser shows.
pub struct Page<'a> {
    pipe: &'a mut Pipe,
}

impl<'a> Page<'a> {
    pub(super) fn attach(pipe: &'a mut Pipe) -> Result<Self> {
        let targets = pipe.call("Target.getTargets", json!({}))?;
        let targets = targets["targetInfos"].as_array().context("no targets")?;
        let page = targets.iter().find(|target| target["type"] == "page").context("no page")?;
        let id = page["targetId"].clone();
        let attached =
            pipe.call("Target.attachToTarget", json!({ "targetId": id, "flatten": true }))?;
        pipe.speak_to(attached["sessionId"].as_str().context("no session")?.to_owned());
        for domain in ["Page", "Runtime", "Log", "Performance"] {
            pipe.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(Self { pipe })
    }

    /// Opens an address.
    pub fn open(&mut self, address: &str) -> Result<()> {
        let opened = self.pipe.call("Page.navigate", json!({ "url": address }))?;
        ensure!(opened["errorText"].is_null(), "{address}: {}", opened["errorText"]);
        Ok(())
    }

    /// Makes the window that large; `mobile` as a phone is.
    pub fn resize(&mut self, width: u32, height: u32, mobile: bool) -> Result<()> {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile,
        });
        self.pipe.call("Emulation.setDeviceMetricsOverride", size).map(drop)
    }

    /// Says that the system prefers dark or light.
    pub fn prefer_dark(&mut self, dark: bool) -> Result<()> {
        let value = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.pipe.call("Emulation.setEmulatedMedia", media).map(drop)
    }

    /// Runs a script at the start of every document from now on.
    pub fn before_each(&mut self, script: &str) -> Result<()> {
        let source = json!({ "source": script });
        self.pipe.call("Page.addScriptToEvaluateOnNewDocument", source).map(drop)
    }

    /// The value of an expression, awaited.
    pub fn eval(&mut self, expression: &str) -> Result<Value> {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let mut answer = self.pipe.call("Runtime.evaluate", params)?;
        if !answer["exceptionDetails"].is_null() {
            bail!("{expression}: {}", answer["exceptionDetails"]["exception"]["description"]);
        }
        Ok(answer["result"]["value"].take())
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        // While a page is being left, nothing can be asked of it.
        while !self.eval(expression).is_ok_and(|value| value == true) {
            if Instant::now() > deadline {
                let text = self.eval("document.body.innerText").unwrap_or_default();
                let complaints = self.pipe.complaints();
                bail!(
                    "after {PATIENCE:?} not: {expression}\n{complaints:?}\nthe page says: {text}"
                );
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Presses a key, as a person does.
    pub fn press(&mut self, key: &str) -> Result<()> {
        let mut event = json!({ "type": "keyDown", "key": key, "code": key });
        let code = match key {
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            _ => 0,
        };
        if code > 0 {
            event["windowsVirtualKeyCode"] = json!(code);
        }
        match key {
            "Enter" => event["text"] = json!("\r"),
            _ if key.chars().count() == 1 => event["text"] = json!(key),
            _ => {}
        }
        self.pipe.call("Input.dispatchKeyEvent", event.clone())?;
        event["type"] = json!("keyUp");
        self.pipe.call("Input.dispatchKeyEvent", event).map(drop)
    }

    /// Presses the mouse at a place, moves it to another one, and lets it go; a click if both are the same.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) -> Result<()> {
        let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
        let steps = [
            ("mousePressed", from),
            ("mouseMoved", middle),
            ("mouseMoved", to),
            ("mouseReleased", to),
        ];
        for (kind, (x, y)) in steps {
            let event = json!({
                "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1,
            });
            self.pipe.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Types a text where the focus is.
    pub fn write(&mut self, text: &str) -> Result<()> {
        self.pipe.call("Input.insertText", json!({ "text": text })).map(drop)
    }

    /// Time for which its main thread has worked.
    pub fn busy(&mut self) -> Result<Duration> {
        let measured = self.pipe.call("Performance.getMetrics", json!({}))?;
        let metrics = measured["metrics"].as_array().context("no metrics")?;
        let busy = metrics.iter().find(|metric| metric["name"] == "TaskDuration");
        let seconds = busy.and_then(|busy| busy["value"].as_f64()).context("no task duration")?;
        Ok(Duration::from_secs_f64(seconds))
    }

    /// The parts of the page as a screen reader is told of them.
    pub fn accessibility(&mut self) -> Result<Vec<Value>> {
        let mut tree = self.pipe.call("Accessibility.getFullAXTree", json!({}))?;
        Ok(tree["nodes"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Writes a picture of what is seen; a PNG.
    pub fn picture(&mut self, file: &Path) -> Result<()> {
        // What was asked for last is drawn by the second frame at the latest.
        self.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")?;
        let shot = self.pipe.call("Page.captureScreenshot", json!({ "format": "png" }))?;
        let bytes = STANDARD.decode(shot["data"].as_str().context("no picture")?)?;
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Exceptions and refusals since this was asked last.
    pub fn complaints(&mut self) -> Vec<String> {
        self.pipe.complaints()
    }
}
