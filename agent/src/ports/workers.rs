//! Pools of threads for jobs that block. Jobs and outcomes cross threads here; replies stay on the
//! actors' thread. A job that panics costs only itself, and a pool may grow while jobs hang.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    io, iter,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::{Rc, Weak},
    time::{Duration, Instant},
};

use crossbeam_channel as jobs;
use tokio::sync::{Notify, mpsc as results};
use volvox_actors::host::Reply;

/// Why no worker could be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start worker thread {name:?}: {cause}; raise the limit of threads or of memory")]
pub struct WorkersError {
    pub(crate) name: String,
    pub(crate) cause: io::Error,
}

/// How often it is looked whether jobs wait behind others that hang.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How many threads are started besides, for jobs that wait behind those.
const SPARE_MAX: usize = 16;

/// Threads that do for the actors what blocks.
///
/// A [`Reply`] must not leave the actors' thread, so it waits here under the job's number. At most
/// `bound` jobs are with the threads; more wait here, in order. One thread does its jobs in the
/// order in which they were submitted.
pub struct Workers<Job, Done: 'static> {
    inner: Rc<Inner<Job, Done>>,
}

struct Inner<Job, Done: 'static> {
    /// How many jobs may be with the threads; none once it is closed.
    bound: Cell<usize>,
    to_threads: jobs::Sender<(u64, Job)>,
    under_way: Cell<usize>,
    waiting: RefCell<VecDeque<(u64, Job)>>,
    replies: RefCell<BTreeMap<u64, Reply<Done>>>,
    next: Cell<u64>,
    /// When a job ended last.
    ended: Cell<Instant>,
    /// Who waits for the end of jobs is woken by each.
    one_ended: Notify,
    /// Starts threads where those that there are hang.
    spare: RefCell<Option<Spare>>,
}

/// What starts more threads.
struct Spare {
    /// The pool's name.
    name: String,
    start: Box<dyn FnMut(usize) -> io::Result<()>>,
    /// How long no job may end while others wait.
    stuck: Duration,
    started: usize,
    /// Whether it is looked already whether there have to be more.
    looking: bool,
}

/// A job's number and what came of it: nothing if the work panicked.
type Finished<Done> = (u64, Option<Done>);

impl<Job: Send + 'static, Done: Send + 'static> Workers<Job, Done> {
    /// Starts `threads` threads, each doing jobs by the function that `make` gave it. A function
    /// that panics loses its job, whose reply is then dropped, and goes on with the next.
    ///
    /// To be called on the actors' thread, within its actix system.
    pub fn start<F>(
        name: &str,
        threads: usize,
        bound: usize,
        mut make: impl FnMut(usize) -> F,
    ) -> Result<Self, WorkersError>
    where
        F: FnMut(Job) -> Done + Send + 'static,
    {
        Self::spawn(name, threads, bound, 1, |index| {
            let mut work = make(index);
            move |jobs: Vec<Job>| jobs.into_iter().map(&mut work).collect()
        })
    }

    /// The same with more threads where jobs wait and none has ended for `stuck`, so that those that hang
    /// hold up no others.
    ///
    /// To be called on the actors' thread, within its actix system.
    pub fn start_elastic<F>(
        name: &str,
        threads: usize,
        bound: usize,
        stuck: Duration,
        mut make: impl FnMut(usize) -> F + 'static,
    ) -> Result<Self, WorkersError>
    where
        F: FnMut(Job) -> Done + Send + 'static,
    {
        let mut each = move |index| {
            let mut work = make(index);
            move |jobs: Vec<Job>| jobs.into_iter().map(&mut work).collect::<Vec<Done>>()
        };
        let (workers, start) = Self::crew(name, bound, 1);
        for index in 0..threads {
            start(index, each(index)).map_err(|cause| not_started(name, index, cause))?;
        }
        let start = Box::new(move |index| start(index, each(index)));
        *workers.inner.spare.borrow_mut() =
            Some(Spare { name: name.to_owned(), start, stuck, started: 0, looking: false });
        Ok(workers)
    }

    /// Starts one thread that does all the jobs that have queued meanwhile at once: for work whose
    /// cost hardly grows with their number. `work` answers for each job, in order.
    ///
    /// To be called on the actors' thread, within its actix system.
    pub fn start_batching<F>(name: &str, bound: usize, work: F) -> Result<Self, WorkersError>
    where
        F: FnMut(Vec<Job>) -> Vec<Done> + Send + 'static,
    {
        let mut work = Some(work);
        Self::spawn(name, 1, bound, bound, |_| work.take().expect("one thread is started"))
    }

    fn spawn<F>(
        name: &str,
        threads: usize,
        bound: usize,
        batch: usize,
        mut make: impl FnMut(usize) -> F,
    ) -> Result<Self, WorkersError>
    where
        F: FnMut(Vec<Job>) -> Vec<Done> + Send + 'static,
    {
        let (workers, start) = Self::crew(name, bound, batch);
        for index in 0..threads {
            start(index, make(index)).map_err(|cause| not_started(name, index, cause))?;
        }
        Ok(workers)
    }

    /// Workers without a thread, and what starts one.
    fn crew<F>(
        name: &str,
        bound: usize,
        batch: usize,
    ) -> (Self, impl Fn(usize, F) -> io::Result<()> + use<F, Job, Done>)
    where
        F: FnMut(Vec<Job>) -> Vec<Done> + Send + 'static,
    {
        let (to_threads, from_actors) = jobs::unbounded();
        let (to_actors, from_threads) = results::channel(bound);
        let named = name.to_owned();
        let start = move |index: usize, work: F| {
            let (from_actors, to_actors) = (from_actors.clone(), to_actors.clone());
            let work = move || labour(work, batch, &from_actors, &to_actors);
            volvox_system::threads::spawn(&format!("{named}-{index}"), work).map(drop)
        };
        let inner = Rc::new(Inner {
            bound: Cell::new(bound),
            to_threads,
            under_way: Cell::new(0),
            waiting: RefCell::default(),
            replies: RefCell::default(),
            next: Cell::new(0),
            ended: Cell::new(Instant::now()),
            one_ended: Notify::new(),
            spare: RefCell::new(None),
        });
        tokio::task::spawn_local(deliver(Rc::downgrade(&inner), from_threads));
        (Self { inner }, start)
    }

    /// Has a job done; its outcome comes through `reply`. Never blocks.
    pub fn submit(&self, job: Job, reply: Reply<Done>) {
        let inner = &self.inner;
        let number = inner.next.replace(inner.next.get() + 1);
        inner.replies.borrow_mut().insert(number, reply);
        inner.waiting.borrow_mut().push_back((number, job));
        inner.hand_over();
        if inner.is_to_be_watched() {
            tokio::task::spawn_local(relieve(Rc::downgrade(inner)));
        }
    }

    /// How many jobs have no outcome yet.
    pub fn unfinished(&self) -> usize {
        self.inner.replies.borrow().len()
    }

    /// Waits until all jobs have their outcome. Those that are submitted later are not begun.
    pub async fn finish(&self) {
        while self.unfinished() > 0 {
            self.inner.one_ended.notified().await;
        }
        self.inner.bound.set(0);
    }

    /// Begins no further job, and waits for those that are with the threads.
    pub async fn stop(&self) {
        self.inner.bound.set(0);
        while self.inner.under_way.get() > 0 {
            self.inner.one_ended.notified().await;
        }
    }
}

fn not_started(name: &str, index: usize, cause: io::Error) -> WorkersError {
    WorkersError { name: format!("{name}-{index}"), cause }
}

impl<Job, Done: 'static> Inner<Job, Done> {
    fn hand_over(&self) {
        while self.under_way.get() < self.bound.get() {
            let Some(job) = self.waiting.borrow_mut().pop_front() else { return };
            // It holds `bound` jobs at most, and its threads live as long as it.
            if let Err(refused) = self.to_threads.send(job) {
                let number = refused.into_inner().0;
                tracing::error!(job = number, "no worker takes the job");
                self.forget(number);
            } else {
                self.under_way.set(self.under_way.get() + 1);
            }
        }
    }

    /// Whether jobs wait for a thread, and nobody looks yet whether one comes to be free.
    fn is_to_be_watched(&self) -> bool {
        let mut spare = self.spare.borrow_mut();
        let Some(spare) = spare.as_mut().filter(|_| !self.to_threads.is_empty()) else {
            return false;
        };
        !std::mem::replace(&mut spare.looking, true)
    }

    /// Starts another thread if no job ended for long. Whether it is to be looked again.
    fn relieve(&self) -> bool {
        let mut spare = self.spare.borrow_mut();
        let Some(spare) = spare.as_mut() else { return false };
        if self.to_threads.is_empty() {
            spare.looking = false;
        } else if self.ended.get().elapsed() >= spare.stuck && spare.started < SPARE_MAX {
            spare.started += 1;
            match (spare.start)(SPARE_MAX + spare.started) {
                Ok(()) => tracing::warn!(
                    pool = spare.name,
                    seconds = spare.stuck.as_secs(),
                    "no job has ended for so long, and others wait: another thread is started"
                ),
                Err(error) => {
                    tracing::error!(pool = spare.name, %error, "jobs wait, and no thread can be started");
                }
            }
        }
        spare.looking
    }

    fn forget(&self, number: u64) -> Option<Reply<Done>> {
        self.replies.borrow_mut().remove(&number)
    }

    fn finish(&self, (number, done): Finished<Done>) {
        self.under_way.set(self.under_way.get() - 1);
        self.ended.set(Instant::now());
        self.hand_over();
        match (self.forget(number), done) {
            (Some(reply), Some(done)) => reply.send(done),
            // Dropped without an answer, a reply says itself that there will be none.
            (reply, _) => drop(reply),
        }
        self.one_ended.notify_one();
    }
}

fn labour<Job, Done>(
    mut work: impl FnMut(Vec<Job>) -> Vec<Done>,
    batch: usize,
    from_actors: &jobs::Receiver<(u64, Job)>,
    to_actors: &results::Sender<Finished<Done>>,
) {
    while let Ok(first) = from_actors.recv() {
        let queued = iter::once(first).chain(from_actors.try_iter().take(batch - 1));
        let (numbers, jobs): (Vec<_>, Vec<_>) = queued.unzip();
        let done = catch_unwind(AssertUnwindSafe(|| work(jobs)));
        if done.is_err() {
            tracing::error!(jobs = ?numbers, "a worker panicked over its jobs");
        }
        let mut done = done.into_iter().flatten();
        for number in numbers {
            if to_actors.blocking_send((number, done.next())).is_err() {
                return;
            }
        }
    }
}

async fn deliver<Job, Done: 'static>(
    to: Weak<Inner<Job, Done>>,
    mut from_threads: results::Receiver<Finished<Done>>,
) {
    while let Some(finished) = from_threads.recv().await {
        let Some(inner) = to.upgrade() else { return };
        inner.finish(finished);
    }
}

/// Looks, as long as jobs wait for a thread, whether any comes to be free.
async fn relieve<Job, Done: 'static>(of: Weak<Inner<Job, Done>>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match of.upgrade() {
            Some(inner) if inner.relieve() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use volvox_actors::host::AskError;

    use super::*;

    type Outcome = oneshot::Receiver<Result<u32, AskError>>;

    fn submit<Job: Send + 'static>(workers: &Workers<Job, u32>, job: Job) -> Outcome {
        let (tell, outcome) = oneshot::channel();
        workers.submit(job, Reply::to(|answer| tell.send(answer).unwrap()));
        outcome
    }

    #[actix::test]
    async fn does_more_jobs_than_fit_in_order() {
        let mut sum = 0;
        let workers = Workers::start("sum", 1, 2, |_| {
            move |n: u32| {
                sum = sum * 3 + n;
                sum
            }
        })
        .unwrap();
        let outcomes: Vec<_> = (0..9).map(|n| submit(&workers, n)).collect();
        assert_eq!(workers.unfinished(), 9);
        let mut expected = 0;
        for (n, outcome) in (0..).zip(outcomes) {
            expected = expected * 3 + n;
            assert_eq!(outcome.await.unwrap(), Ok(expected));
        }
        assert_eq!(workers.unfinished(), 0);
    }

    #[actix::test]
    async fn finishing_does_all_that_was_submitted_and_begins_nothing_more() {
        let workers = Workers::start("finish", 1, 2, |_| |n: u32| n).unwrap();
        workers.finish().await;
        let workers = Workers::start("finish", 1, 2, |_| |n: u32| n).unwrap();
        let outcomes: Vec<_> = (0..9).map(|n| submit(&workers, n)).collect();
        workers.finish().await;
        assert_eq!(workers.unfinished(), 0);
        for (n, outcome) in (0..).zip(outcomes) {
            assert_eq!(outcome.await.unwrap(), Ok(n));
        }
        let late = submit(&workers, 9);
        drop(workers);
        assert_eq!(late.await.unwrap(), Err(AskError::Gone), "it was never begun");
    }

    #[actix::test]
    async fn stopping_ends_what_was_begun_only() {
        let (open, gate) = jobs::bounded::<()>(0);
        let (did, done) = jobs::unbounded();
        let workers = Workers::start("stop", 1, 2, move |_| {
            let (gate, did) = (gate.clone(), did.clone());
            move |n: u32| {
                gate.recv().unwrap();
                did.send(n).unwrap();
                n
            }
        })
        .unwrap();
        let _outcomes: Vec<_> = (0..5).map(|n| submit(&workers, n)).collect();
        {
            let mut stopping = std::pin::pin!(workers.stop());
            let at_once = tokio::time::timeout(Duration::from_millis(50), &mut stopping).await;
            assert!(at_once.is_err(), "two jobs are with the thread");
            open.send(()).unwrap();
            open.send(()).unwrap();
            stopping.await;
        }
        assert_eq!(workers.unfinished(), 3);
        drop(workers);
        assert_eq!(done.iter().collect::<Vec<_>>(), [0, 1]);
    }

    #[actix::test]
    async fn a_panic_costs_one_job() {
        let workers =
            Workers::start("fragile", 1, 4, |_| |n: u32| n.checked_sub(1).expect("more than zero"))
                .unwrap();
        let (bad, good) = (submit(&workers, 0), submit(&workers, 5));
        assert_eq!(bad.await.unwrap(), Err(AskError::Gone));
        assert_eq!(good.await.unwrap(), Ok(4));
    }

    #[actix::test]
    async fn a_job_that_hangs_holds_up_no_other() {
        let (open, gate) = jobs::bounded::<()>(0);
        let workers =
            Workers::start_elastic("elastic", 1, 8, Duration::from_millis(300), move |_| {
                let gate = gate.clone();
                move |hangs: bool| {
                    if hangs {
                        gate.recv().unwrap();
                    }
                    u32::from(hangs)
                }
            })
            .unwrap();
        let hung = submit(&workers, true);
        let others = [false, false, true, false].map(|hangs| submit(&workers, hangs));
        let [one, two, hung_too, three] = others;
        for other in [one, two, three] {
            assert_eq!(other.await.unwrap(), Ok(0));
        }
        open.send(()).unwrap();
        open.send(()).unwrap();
        assert_eq!((hung.await.unwrap(), hung_too.await.unwrap()), (Ok(1), Ok(1)));
    }

    #[actix::test]
    async fn a_batch_takes_what_queued_meanwhile() {
        let (open, gate) = jobs::bounded::<()>(1);
        let (entered, entry) = jobs::bounded::<()>(1);
        let workers = Workers::start_batching("batch", 8, move |jobs: Vec<u32>| {
            entered.send(()).unwrap();
            gate.recv().unwrap();
            let size = u32::try_from(jobs.len()).unwrap();
            jobs.into_iter().map(|n| n * 10 + size).collect()
        })
        .unwrap();
        let first = submit(&workers, 1);
        entry.recv().unwrap();
        let rest: Vec<_> = (2..5).map(|n| submit(&workers, n)).collect();
        open.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(11));
        open.send(()).unwrap();
        for (n, outcome) in (2..5).zip(rest) {
            assert_eq!(outcome.await.unwrap(), Ok(n * 10 + 3));
        }
    }

    #[actix::test]
    async fn threads_work_side_by_side_and_end_with_their_owner() {
        let (meet, met) = jobs::bounded::<()>(0);
        let (alive, ended) = jobs::bounded::<()>(0);
        let workers = Workers::start("pair", 2, 2, |index| {
            let (meet, met, alive) = (meet.clone(), met.clone(), alive.clone());
            move |(): ()| {
                let _alive = &alive;
                // Neither returns unless both run at the same time.
                if index == 0 {
                    meet.send(()).unwrap()
                } else {
                    met.recv().unwrap()
                }
                1
            }
        })
        .unwrap();
        for outcome in [submit(&workers, ()), submit(&workers, ())] {
            assert_eq!(outcome.await.unwrap(), Ok(1));
        }
        drop((workers, alive));
        // Nothing is ever sent: this returns when the last thread has let its end go.
        assert!(ended.recv().is_err());
    }
}
