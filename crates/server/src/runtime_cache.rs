//! The runtime cache: values in memory under keys, where programs for Vercel keep results of tasks. Nothing of it is stored.
//!
//! Keys, values and tags count with what it costs to keep them; when there is no room, what was not asked for goes first, the
//! oldest before others (`quick_cache`). Ends of lives stand in the values, by the engine's clock: one that is over is found when it is asked
//! for, and until then holds its room.
//!
//! Invariant: what is held never counts more than `bytes_max`, and any value that may come fits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use millpond_api::limits::{
    VERCEL_CACHE_KEY_BYTES_MAX, VERCEL_CACHE_TAG_BYTES_MAX, VERCEL_CACHE_TAGS_MAX,
    VERCEL_CACHE_VALUE_BYTES_MAX,
};
use millpond_api::vercel::cache::CacheOptions;
use millpond_core::time::Timestamp;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// The least that a runtime cache can be told to hold, in bytes.
pub const RUNTIME_CACHE_BYTES_MIN: usize = 8 << 20;
/// The most that it can be told to hold.
pub const RUNTIME_CACHE_BYTES_MAX: usize = 1 << 30;

/// What a value counts besides its bytes: its place in the map, allocations, and what the map remembers of others that went.
const VALUE_COST_BYTES: usize = 256;
/// The same of a tag.
const TAG_COST_BYTES: usize = 32;
/// Each part of the cache has a lock and an equal share of the bytes; a smaller share would hold too few large values.
const SHARE_BYTES: usize = 16 << 20;
/// The part of a share for what was there first or was asked for; the rest is a queue of new values. Results of tasks are
/// asked for once if at all, so that new ones need more room than the map gives them unless told, 3 of 100.
const KEPT_PART: f64 = 0.5;
/// What a value is taken for in the estimate of how many there are, by which the map knows how many to remember that went.
const VALUE_BYTES_GUESS: usize = 4 << 10;

const _: () = {
    let tags = VERCEL_CACHE_TAGS_MAX * (VERCEL_CACHE_TAG_BYTES_MAX + TAG_COST_BYTES);
    let largest = VALUE_COST_BYTES + VERCEL_CACHE_KEY_BYTES_MAX + VERCEL_CACHE_VALUE_BYTES_MAX + tags;
    // The map refuses what is larger than that part.
    assert!((largest as f64) < RUNTIME_CACHE_BYTES_MIN as f64 * KEPT_PART);
    assert!(RUNTIME_CACHE_BYTES_MIN <= SHARE_BYTES && SHARE_BYTES <= RUNTIME_CACHE_BYTES_MAX);
};

/// The cache.
pub(crate) struct RuntimeCache {
    values: Cache<Box<str>, Arc<Kept>, Weights>,
    bytes_max: u64,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A value, and when it goes.
struct Kept {
    value: Bytes,
    tags: Box<[Box<str>]>,
    ends_at: Timestamp,
}

impl Kept {
    fn is_over(&self, now: Timestamp) -> bool {
        self.ends_at <= now
    }
}

#[derive(Clone)]
struct Weights;

impl Weighter<Box<str>, Arc<Kept>> for Weights {
    fn weight(&self, key: &Box<str>, kept: &Arc<Kept>) -> u64 {
        let tags: usize = kept.tags.iter().map(|tag| tag.len() + TAG_COST_BYTES).sum();
        count(VALUE_COST_BYTES + key.len() + kept.value.len() + tags)
    }
}

/// What an operator watches.
#[derive(Clone, Copy, Default)]
pub(crate) struct CacheReading {
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) values: u64,
}

impl RuntimeCache {
    /// An empty one for so many bytes, within [`RUNTIME_CACHE_BYTES_MIN`] and [`RUNTIME_CACHE_BYTES_MAX`].
    pub(crate) fn new(bytes: usize) -> Self {
        let bytes = bytes.clamp(RUNTIME_CACHE_BYTES_MIN, RUNTIME_CACHE_BYTES_MAX);
        let shares = 1 << (bytes / SHARE_BYTES).max(1).ilog2();
        let options = OptionsBuilder::new()
            .shards(shares)
            .hot_allocation(KEPT_PART)
            .estimated_items_capacity(bytes / VALUE_BYTES_GUESS)
            .weight_capacity(count(bytes - bytes % shares))
            .build()
            .expect("both capacities are given");
        let values =
            Cache::with_options(options, Weights, DefaultHashBuilder::default(), DefaultLifecycle::default());
        let (hits, misses) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { values, bytes_max: count(bytes), hits, misses }
    }

    /// The value under a key, unless its time is over.
    pub(crate) fn get(&self, key: &str, now: Timestamp) -> Option<Bytes> {
        let found = self.values.get(key);
        let fresh = found.as_ref().filter(|kept| !kept.is_over(now)).map(|kept| kept.value.clone());
        if found.is_some() && fresh.is_none() {
            // Another call may have put a new one there meanwhile.
            self.values.remove_if(key, |kept| kept.is_over(now));
        }
        let counter = if fresh.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        fresh
    }

    /// Keeps a value in the place of what was under its key.
    pub(crate) fn set(&self, key: String, value: &[u8], options: CacheOptions, now: Timestamp) {
        // A copy: a body may be a small part of what a connection read at once, all of which it would hold.
        let value = Bytes::copy_from_slice(value);
        let tags = options.tags.into_iter().map(String::into_boxed_str).collect();
        let ends_at = options.time_to_live.map_or(Timestamp::NEVER, |time| now.plus(time));
        self.values.insert(key.into_boxed_str(), Arc::new(Kept { value, tags, ends_at }));
    }

    pub(crate) fn delete(&self, key: &str) {
        self.values.remove(key);
    }

    /// Removes every value with any of these tags. Looks at all of them, share by share.
    pub(crate) fn revalidate(&self, tags: &[String]) {
        let is_named = |tag: &str| tags.iter().any(|named| named == tag);
        self.values.retain(|_, kept| !kept.tags.iter().any(|tag| is_named(tag)));
    }

    pub(crate) fn read(&self) -> CacheReading {
        CacheReading {
            bytes: self.values.weight(),
            bytes_max: self.bytes_max,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            values: count(self.values.len()),
        }
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn tagged(tags: &[&str]) -> CacheOptions {
        CacheOptions { tags: tags.iter().map(|&tag| tag.to_owned()).collect(), time_to_live: None }
    }

    #[test]
    fn what_is_held_counts_whole_and_goes_whole() {
        let cache = RuntimeCache::new(RUNTIME_CACHE_BYTES_MIN);
        cache.set("key".to_owned(), &[b'v'; 100], tagged(&["a", "bc"]), NOW);
        let bytes = count(VALUE_COST_BYTES + 3 + 100 + 3 + 2 * TAG_COST_BYTES);
        assert_eq!((cache.read().bytes, cache.read().values), (bytes, 1));
        cache.set("key".to_owned(), b"v", tagged(&[]), NOW);
        assert_eq!(cache.read().bytes, count(VALUE_COST_BYTES + 3 + 1));
        cache.delete("key");
        assert_eq!((cache.read().bytes, cache.read().values), (0, 0));
    }

    #[test]
    fn whatever_comes_the_bytes_are_not_exceeded_and_the_last_is_there() {
        for bytes in [RUNTIME_CACHE_BYTES_MIN, (48 << 20) + 1] {
            let cache = RuntimeCache::new(bytes);
            assert_eq!(cache.read().bytes_max, count(bytes));
            let value = vec![b'v'; VERCEL_CACHE_VALUE_BYTES_MAX];
            for number in 0..200usize {
                // Of all sizes, the largest and the smallest among them.
                let size = if number % 3 == 0 { value.len() } else { number * number * 37 % value.len() };
                let key = format!("{number:0>width$}", width = 1 + number % VERCEL_CACHE_KEY_BYTES_MAX);
                cache.set(key.clone(), &value[..size], tagged(&["t"]), NOW);
                assert_eq!(cache.get(&key, NOW).map(|kept| kept.len()), Some(size), "{number}");
                assert!(cache.read().bytes <= count(bytes), "{number}: {} bytes", cache.read().bytes);
            }
            assert!((1..200).contains(&cache.read().values));
        }
    }

    #[test]
    fn what_is_asked_for_again_and_again_outlives_what_is_not() {
        let cache = RuntimeCache::new(RUNTIME_CACHE_BYTES_MIN);
        cache.set("hot".to_owned(), &[b'v'; 1_000], tagged(&[]), NOW);
        for number in 0..20_000 {
            assert!(cache.get("hot", NOW).is_some(), "{number}");
            cache.set(format!("cold{number}"), &[b'v'; 1_000], tagged(&[]), NOW);
        }
        assert!(cache.read().values < 7_000);
    }

    #[test]
    fn new_values_that_nobody_asked_for_yet_have_half_the_room() {
        let cache = RuntimeCache::new(RUNTIME_CACHE_BYTES_MIN);
        let (total, new) = (20_000, RUNTIME_CACHE_BYTES_MIN / 2 / (VALUE_COST_BYTES + 1_000 + 5));
        for number in 0..total {
            cache.set(format!("{number:05}"), &[b'v'; 1_000], tagged(&[]), NOW);
        }
        for number in total - new..total {
            assert!(cache.get(&format!("{number:05}"), NOW).is_some(), "{number}");
        }
        assert!(cache.read().values < 2 * count(new) + 2);
    }

    #[test]
    fn a_value_that_is_over_gives_its_room_back_when_it_is_asked_for() {
        let cache = RuntimeCache::new(RUNTIME_CACHE_BYTES_MIN);
        let options = CacheOptions { tags: Vec::new(), time_to_live: Some(Duration::from_secs(1)) };
        cache.set("k".to_owned(), b"v", options, NOW);
        let last = NOW.plus(Duration::from_millis(999));
        assert_eq!(cache.get("k", last).as_deref(), Some(&b"v"[..]));
        assert!(cache.read().bytes > 0);
        assert_eq!(cache.get("k", last.plus(Duration::from_millis(1))), None);
        assert_eq!(cache.read().bytes, 0);
        assert_eq!((cache.read().hits, cache.read().misses), (1, 1));
    }
}
