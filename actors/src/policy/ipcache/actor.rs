//! The actor that brings the kernel's ipcache to the desired state, and tries again after failures.
//! The table computes what is to be written; `sweep` looks for drift.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use ipnet::IpNet;

use super::{
    IpcacheMsg, answers::IpcacheAnswer, batch::RowsOutcome, messages::IpcacheView,
    table::IpcacheTable,
};
use crate::{
    host::{AskError, Behaviour, Cx, Lent, Pauses, Reply, Survives},
    model::drift::{DriftByMap, DriftReply, DriftWatch},
    ports::{AgentNotices, IpcacheRow, Kernel, KernelDone, KernelError, Refusal},
};

/// How long the kernel may take for a batch.
const PATIENCE: Duration = Duration::from_secs(60);
/// After the nth failure in a row the next try waits n times as long.
const PAUSES: Pauses =
    Pauses::Linear { step: Duration::from_secs(1), most: Duration::from_secs(30) };

/// The owner of the ipcache: writes the difference between what its sources say and what the
/// kernel has, one batch at a time.
pub struct Ipcache {
    pub(super) kernel: Rc<dyn Kernel>,
    /// Who hears of rows that are written, if anybody does.
    notices: Option<Rc<dyn AgentNotices>>,
    pub(super) watch: DriftWatch,
    /// The comparison under way, and who asked for another one meanwhile.
    pub(super) sweep: Option<IpcacheSweep>,
    pub(super) subscribers: Vec<DriftReply>,
    /// Outlives a crash: what sources said is said only once.
    pub(super) table: Lent<IpcacheTable>,
    /// Questions that wait for the next batch.
    asking: Vec<RowsRequester>,
    /// Questions that wait for the batch under way.
    written_for: Option<Vec<RowsRequester>>,
    failures: u32,
    last_error: Option<String>,
}

struct RowsRequester {
    removes: bool,
    reply: Reply<Result<(), KernelError>>,
}

/// A sweep under way.
#[derive(Default)]
pub(super) struct IpcacheSweep {
    pub(super) found: DriftByMap,
    /// Rows at prefixes that nobody named.
    pub(super) strangers: BTreeMap<IpNet, IpcacheRow>,
    /// Keys that are no prefixes.
    pub(super) strange: Vec<Box<[u8]>>,
    pub(super) subscribers: Vec<DriftReply>,
}

impl Ipcache {
    /// Makes each life of the actor that writes to this kernel, and says what it wrote.
    pub fn factory(
        kernel: Rc<dyn Kernel>,
        watch: DriftWatch,
        notices: Option<Rc<dyn AgentNotices>>,
    ) -> impl FnMut() -> Self + 'static {
        let table = Survives::default();
        move || Self {
            kernel: Rc::clone(&kernel),
            notices: notices.clone(),
            watch: watch.clone(),
            sweep: None,
            subscribers: Vec::new(),
            table: table.lend(),
            asking: Vec::new(),
            written_for: None,
            failures: 0,
            last_error: None,
        }
    }

    /// Answers once what is to be written is.
    pub(super) fn ask_when_written(&mut self, reply: Reply<Result<(), KernelError>>) {
        self.asking.push(RowsRequester { removes: true, reply });
    }

    /// Begins the next batch, unless one is under way.
    fn write(&mut self, cx: &mut Cx<'_, Self>) {
        if self.written_for.is_some() {
            return;
        }
        let table = &mut *self.table;
        let batch = table.next_batch();
        let job = batch.map(|it| (it.job(), it.prefixes().count(), it.makes_room));
        // What makes room first is not yet what is asked for.
        let askers = match job {
            Some((.., true)) => Vec::new(),
            _ => std::mem::take(&mut self.asking),
        };
        match job {
            None => askers.into_iter().for_each(|asker| asker.reply.send(Ok(()))),
            Some((job, rows, _)) => {
                let why = format!("{rows} rows of the ipcache");
                let reply = cx.expect("kernel", PATIENCE, why, IpcacheAnswer::Written);
                self.written_for = Some(askers);
                self.kernel.submit(job, reply);
            }
        }
    }

    fn written(&mut self, done: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        let news = self.notices.as_ref().map(|_| self.table.news());
        let (puts, deletes) = self.table.written(done.map_err(unanswered));
        if let (Some(notices), Some(news)) = (&self.notices, news) {
            let written = [&puts, &deletes].map(|outcome| *outcome == RowsOutcome::Written);
            let news = news.into_iter().zip(written).filter(|(_, written)| *written);
            news.flat_map(|(news, _)| news).for_each(|it| notices.happened(it));
        }
        for asker in self.written_for.take().unwrap_or_default() {
            let removed = if asker.removes { deletes.result() } else { Ok(()) };
            asker.reply.send(puts.result().and(removed));
        }
        match puts.result().and(deletes.result()) {
            Ok(()) => {
                self.failures = 0;
                self.last_error = None;
            }
            Err(error) => {
                self.failures += 1;
                let wait = PAUSES.after(self.failures);
                tracing::warn!(%error, retry_in = ?wait, "ipcache rows were not written");
                self.last_error = Some(error.to_string());
                cx.after(wait, IpcacheAnswer::Retry);
            }
        }
    }
}

impl Behaviour for Ipcache {
    type Msg = IpcacheMsg;
    type Answer = IpcacheAnswer;
    type Observed = IpcacheView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.table.lose_batch();
        self.watch.sweep_later(cx, IpcacheAnswer::Sweep);
        self.write(cx);
    }

    fn handle(&mut self, msg: IpcacheMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            IpcacheMsg::Restore(rows) => self.table.restore(rows),
            IpcacheMsg::Upsert { entries, reply } => {
                let table = &mut *self.table;
                entries.into_iter().for_each(|(prefix, entry)| table.put(prefix, entry));
                self.asking.push(RowsRequester { removes: false, reply });
            }
            IpcacheMsg::Remove { prefixes, source, reply } => {
                let table = &mut *self.table;
                prefixes.into_iter().for_each(|prefix| table.remove(prefix, source));
                self.asking.push(RowsRequester { removes: true, reply });
            }
            IpcacheMsg::Prune => self.table.prune(),
            IpcacheMsg::Find { address, reply } => reply.send(self.table.find(address)),
            IpcacheMsg::List(reply) => {
                let all = self.table.list();
                reply.send(all);
            }
            IpcacheMsg::Show(reply) => {
                reply.send(self.observe());
            }
            IpcacheMsg::Compare(subscriber) => self.compare(Some(subscriber), cx),
        }
        self.write(cx);
    }

    fn answered(&mut self, answer: IpcacheAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            IpcacheAnswer::Sweep => self.compare(None, cx),
            IpcacheAnswer::Written(done) => self.written(done, cx),
            IpcacheAnswer::Retry => self.table.resume(),
            IpcacheAnswer::Page(done) => self.page(done, cx),
            IpcacheAnswer::Cleaned(done) => {
                if let Ok(KernelDone { failed: Some((_, error)), .. }) = done {
                    tracing::warn!(%error, "strange rows of the ipcache stay until the next sweep");
                }
            }
        }
        self.write(cx);
    }

    fn observe(&self) -> IpcacheView {
        let (rows, open) = self.table.counts();
        IpcacheView { rows, open, failures: self.failures, last_error: self.last_error.clone() }
    }
}

fn unanswered(error: AskError) -> KernelError {
    KernelError {
        op: "write",
        about: "cilium_ipcache_v2".to_owned(),
        cause: error.to_string(),
        remedy: "it is tried again; if it stays so, look at the agent's log for the kernel's errors",
        refusal: Refusal::Other,
    }
}
