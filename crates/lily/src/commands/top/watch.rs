//! Looks at a server, and what they add up to.

use super::{address::Address, figures::Figures, http, prometheus::Samples};
use anyhow::{Result, bail};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// What latencies and shares are taken over.
const WINDOW: Duration = Duration::from_secs(60);
/// What speeds are taken over: long enough to be steady, short enough to follow.
const SPEED_WINDOW: Duration = Duration::from_secs(3);
/// Speeds kept for the small chart.
const CHART: usize = 40;

/// Whom to watch.
pub(super) struct Watcher {
    pub(super) server: Address,
    pub(super) key: Option<String>,
}

/// One look, or why there was nothing to see.
pub(super) type Look = Result<Seen>;

/// What one look saw.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) health: Health,
    pub(super) samples: Samples,
}

/// What `/health` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub(super) struct Health {
    pub(super) status: String,
    pub(super) model: String,
    pub(super) backend: String,
    pub(super) version: String,
    pub(super) context: u64,
}

impl Watcher {
    /// Asks the server once.
    pub(super) fn look(&self) -> Look {
        let key = self.key.as_deref();
        let metrics = http::get(&self.server, "/metrics", key)?;
        match metrics.status {
            200 => {}
            401 => bail!("the server asks for a key; see --api-key"),
            status => bail!("the server answered with status {status}; is it a Lily?"),
        }
        let health = http::get(&self.server, "/health", key)?;
        let health = serde_json::from_str(&health.body)?;
        Ok(Seen { health, samples: Samples::parse(&metrics.body) })
    }
}

/// The looks of the last minute.
#[derive(Debug, Default)]
pub(super) struct History {
    looks: VecDeque<(Instant, Seen)>,
    /// Decode speeds, newest last.
    pub(super) speeds: VecDeque<f64>,
    gone: Option<(Instant, String)>,
}

impl History {
    /// Takes a look in.
    pub(super) fn add(&mut self, look: Look, now: Instant) {
        let seen = match look {
            Ok(seen) => seen,
            Err(error) => {
                let since = self.gone.take().map_or(now, |(since, _)| since);
                self.gone = Some((since, format!("{error:#}")));
                return;
            }
        };
        let generated = |seen: &Seen| seen.samples.get("lily_generated_tokens_total");
        let restarted = self.looks.back().is_some_and(|(_, last)| generated(last) > generated(&seen));
        if self.gone.take().is_some() || restarted {
            // Another server, or one that began anew: nothing can be compared with what was before.
            self.looks.clear();
            self.speeds.clear();
        }
        self.looks.push_back((now, seen));
        // One look from before the window is kept: its end.
        while self.looks.len() > 2 && now.duration_since(self.looks[1].0) >= WINDOW {
            self.looks.pop_front();
        }
        if let Some(speed) = self.figures().and_then(|figures| figures.decode_rate) {
            self.speeds.push_back(speed);
            if self.speeds.len() > CHART {
                self.speeds.pop_front();
            }
        }
    }

    /// Why the last look saw nothing.
    pub(super) fn error(&self) -> Option<&str> {
        self.gone.as_ref().map(|(_, error)| error.as_str())
    }

    /// Since when nothing is seen.
    pub(super) fn gone_since(&self) -> Option<Instant> {
        self.gone.as_ref().map(|(since, _)| *since)
    }

    /// The last look.
    pub(super) fn last(&self) -> Option<&Seen> {
        self.looks.back().map(|(_, seen)| seen)
    }

    /// The figures of the last look.
    pub(super) fn figures(&self) -> Option<Figures> {
        let (now, last) = self.looks.back()?;
        let (first_at, first) = self.looks.front()?;
        let recent = self.looks.iter().rev().skip(1);
        let (recent_at, recent) = recent
            .clone()
            .find(|(at, _)| now.duration_since(*at) >= SPEED_WINDOW)
            .or_else(|| recent.last())
            .map_or((*now, last), |(at, seen)| (*at, seen));
        Some(Figures::of(
            &last.samples,
            (&first.samples, now.duration_since(*first_at)),
            (&recent.samples, now.duration_since(recent_at)),
        ))
    }
}
