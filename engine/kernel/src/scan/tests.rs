use mnemolith_simd::available;
use proptest::prelude::*;

use super::fixture::{Memory, NOW_MS, Random, World, bloom, normalised, random_world, world};
use super::*;
use crate::admission::Filter;
use crate::format::flags;

/// One request with everything it borrows.
#[derive(Debug, Clone)]
struct Ask {
    query: Vec<f32>,
    k: usize,
    filter: Filter,
    weights: Weights,
    optional: Vec<u32>,
    mood: Option<i8>,
}

impl Ask {
    fn plain(query: Vec<f32>, k: usize) -> Self {
        Self { query, k, filter: Filter::default(), weights: Weights::default(), optional: Vec::new(), mood: None }
    }

    fn random(random: &mut Random, world: &World, dimension: usize) -> Self {
        let near = &world.rows[random.below(world.rows.len() as u64) as usize];
        let usable = near.flags & flags::HAS_VECTOR != 0 && random.one_in(2);
        let weights = if random.one_in(3) {
            Weights::default()
        } else {
            let mut weight = || random.below(5) as f64 / 4.0;
            Weights { importance: weight(), tags: weight(), mood: weight(), floor: weight() }
        };
        let mut filter = Filter { require_vector: random.one_in(2), ..Filter::default() };
        if random.one_in(3) {
            filter.tags_all = vec![(1 + random.below(9)).to_string()];
            filter.mask = bloom(&[filter.tags_all[0].parse().unwrap()]);
        }
        if random.one_in(4) {
            filter.after_ms = Some(NOW_MS - random.below(400) as i64 * 3_600_000);
        }
        Self {
            query: if usable { near.vector.clone() } else { random.vector(dimension) },
            k: [1, 2, 10, 100, 100_000][random.below(5) as usize],
            filter,
            weights,
            optional: (1..=4).filter(|_| random.one_in(2)).collect(),
            mood: random.one_in(2).then(|| random.below(255) as i8),
        }
    }

    fn with<T>(&self, use_request: impl FnOnce(&ScanRequest<'_>) -> T) -> T {
        let filter = self.filter.resolve(&|word| word.parse().ok(), &|_| None);
        use_request(&ScanRequest {
            query: &self.query,
            k: self.k,
            filter: &filter,
            weights: self.weights,
            optional_tags: bloom(&self.optional),
            mood: self.mood,
            now_ms: NOW_MS,
        })
    }

    fn scan(&self, world: &World, kernels: &Kernels) -> ScanOutcome {
        self.with(|request| scan(&world.reader, kernels, &world.index, request)).unwrap()
    }

    /// The memories that the filter admits, checked one by one.
    fn admitted<'a>(&self, world: &'a World) -> Vec<&'a Memory> {
        let fits = |memory: &&Memory| {
            memory.is_live()
                && self.filter.tags_all.iter().all(|tag| memory.tags.contains(&tag.parse().unwrap()))
                && self.filter.after_ms.is_none_or(|after| memory.event_time_ms >= after)
                && (!self.filter.require_vector || memory.flags & flags::HAS_VECTOR != 0)
        };
        world.rows.iter().filter(fits).collect()
    }

    /// Whether `a` has to come before `b`; `false` also where only rounding could tell.
    fn is_before(&self, a: &Memory, b: &Memory) -> bool {
        if (Memory { slot: b.slot, lsn: b.lsn, ..a.clone() }) == *b {
            return a.lsn < b.lsn;
        }
        let (a, b) = (self.expected(a), self.expected(b));
        a.0 > b.0 + 1e-12 || (a.0 == b.0 && a.1 > b.1 + 1e-12)
    }

    /// Score and cosine: the formula of the specification, straight.
    fn expected(&self, memory: &Memory) -> (f64, f64) {
        let Weights { importance: b, tags: g, mood: m, floor } = self.weights;
        let [b, g, m, floor] = [b, g, m, floor].map(f64::from);
        let cosine: f64 = self.query.iter().zip(&memory.vector).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        let days = (NOW_MS - memory.event_time_ms).max(0) as f64 / 86_400_000.0;
        let strength = f64::from(memory.state.map_or(1.0, |state| state.0));
        let pinned = memory.flags & flags::PINNED != 0;
        let decay = if pinned { 1.0 } else { floor + (1.0 - floor) * (1.0 + days / (7.0 * strength)).powf(-0.5) };
        let modulation = (1.0 + b * f64::from(memory.importance) / 10.0 * decay) / (1.0 + b);
        let wanted = bloom(&self.optional);
        let shared = f64::from((memory.mask() & wanted).count_ones());
        let tags = if wanted == 0 { 1.0 } else { 1.0 + g * shared / f64::from(wanted.count_ones()) };
        let mood = self.mood.map_or(1.0, |mood| 1.0 - m * (f64::from(mood) - f64::from(memory.valence_now())).abs() / 255.0);
        (cosine.max(0.0) * modulation * tags * mood, cosine)
    }
}

/// Holds an answer against the formula: every figure, the order, and that nobody better was left out.
fn check(ask: &Ask, world: &World, outcome: &ScanOutcome) {
    let admitted = ask.admitted(world);
    assert_eq!(outcome.admitted, admitted.len() as u64);
    assert_eq!(outcome.hits.len(), ask.k.min(admitted.len()));
    let found = |hit: &Scored| *admitted.iter().find(|memory| memory.slot == hit.slot).unwrap();
    let memories: Vec<_> = outcome.hits.iter().map(found).collect();
    for (hit, memory) in outcome.hits.iter().zip(&memories) {
        let (score, cosine) = ask.expected(memory);
        assert!((hit.score - score).abs() < 1e-12 && (hit.cosine - cosine).abs() < 1e-12, "{hit:?} scores {score}");
        let Breakdown { sim, modulation, tags, mood } = hit.breakdown;
        assert!((mood * tags * modulation * sim - hit.score).abs() < 1e-12);
        assert_eq!(hit.lsn, memory.lsn);
    }
    assert!(outcome.hits.is_sorted_by(|a, b| a.best_first(b).is_lt()));
    assert!(memories.is_sorted_by(|a, b| !ask.is_before(b, a)));
    let mut hits: Vec<u64> = memories.iter().map(|memory| memory.slot).collect();
    hits.sort_unstable();
    if let Some(last) = memories.last() {
        for other in admitted.iter().filter(|other| hits.binary_search(&other.slot).is_err()) {
            assert!(!ask.is_before(other, last), "{other:?} was left out");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_kernel_agrees_with_the_oracle_and_with_the_others(seed: u64) {
        let mut random = Random(seed);
        for (dimension, most) in [(1, 300), (7, 3000), (16, 3000), (50, 2000), (384, 900)] {
            let count = 1 + random.below(most) as usize;
            let world = random_world(&mut random, dimension, count);
            for _ in 0..4 {
                let ask = Ask::random(&mut random, &world, dimension);
                let outcomes: Vec<_> = available().iter().map(|kernels| ask.scan(&world, kernels)).collect();
                check(&ask, &world, &outcomes[0]);
                for outcome in &outcomes {
                    // Scored rows compare bit for bit: there is no NaN and no -0 among them.
                    prop_assert_eq!(&outcome.hits, &outcomes[0].hits);
                    prop_assert_eq!(outcome.rows_scanned, outcomes[0].rows_scanned);
                }
            }
        }
    }

    #[test]
    fn a_rank_is_the_place_in_the_whole_answer(seed: u64) {
        let mut random = Random(seed);
        let dimension = [7, 50][random.below(2) as usize];
        let world = random_world(&mut random, dimension, 1500);
        let ask = Ask::random(&mut random, &world, dimension);
        let whole = Ask { k: usize::MAX, ..ask.clone() }.scan(&world, available()[0]);
        check(&Ask { k: usize::MAX, ..ask.clone() }, &world, &whole);
        for kernels in available() {
            for _ in 0..5 {
                let memory = &world.rows[random.below(1500) as usize];
                let rank = ask.with(|request| rank_of(&world.reader, kernels, &world.index, request, memory.slot)).unwrap();
                let place = whole.hits.iter().position(|hit| hit.slot == memory.slot);
                prop_assert_eq!(rank.map(|rank| rank.rank), place.map(|place| place as u64));
                prop_assert_eq!(rank.map(|rank| rank.scored), place.map(|place| whole.hits[place]));
            }
        }
    }

    #[test]
    fn the_nearest_rows_are_those_of_a_naive_search(seed: u64) {
        let mut random = Random(seed);
        for dimension in [1, 7, 50, 384] {
            let stride = row_stride(dimension);
            let mut first = 5;
            let mut runs = Vec::new();
            let count = 1 + random.below(6);
            for _ in 0..count {
                let mut rows = Vec::new();
                let count = 1 + random.below(if dimension == 7 { 3000 } else { 200 });
                for _ in 0..count {
                    // A third are the first row but for the last bits.
                    let row = if random.one_in(3) && !rows.is_empty() {
                        normalised(rows[..dimension].iter().map(|value: &f32| f64::from(*value) + 1e-7 * random.signed()).collect())
                    } else {
                        random.vector(dimension)
                    };
                    rows.extend(row);
                    rows.resize(rows.len().next_multiple_of(stride), 0.0);
                }
                runs.push((first, rows));
                first += count + random.below(3);
            }
            runs.reverse();
            let query = if random.one_in(2) { random.vector(dimension) } else { runs[0].1[..dimension].to_vec() };
            let rows = runs.iter().flat_map(|(first, rows)| (*first..).zip(rows.chunks(stride)));
            let mut expected: Vec<(u64, f64)> = rows.map(|(slot, row)| (slot, canonical_cosine(&query, &row[..dimension]))).collect();
            expected.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
            for kernels in available() {
                for n in [0, 1, 8, 10_000] {
                    let found = nearest_rows(kernels, &query, stride, runs.iter().map(|(first, rows)| (*first, &rows[..])), n);
                    prop_assert_eq!(&found[..], &expected[..n.min(expected.len())]);
                }
            }
        }
    }
}

#[test]
fn equal_rows_are_answered_in_the_order_of_the_log() {
    let mut random = Random(1);
    let vector = random.vector(16);
    // More than the top k holds before it asks for canonical scores, and the earliest in the log come last.
    let row = |lsn: u64| Memory::plain(lsn, vector.clone());
    let world = world(16, vec![(5000..9000).map(row).collect(), (0..5000).map(row).collect()]);
    for kernels in available() {
        let outcome = Ask::plain(vector.clone(), 30).scan(&world, kernels);
        assert_eq!(outcome.hits.iter().map(|hit| hit.lsn).collect::<Vec<_>>(), (0..30).collect::<Vec<_>>());
        assert!(outcome.candidates >= 9000, "{}", outcome.candidates);
    }
}

#[test]
fn rows_that_point_away_are_ordered_by_cosine_and_do_not_tie() {
    let mut random = Random(2);
    let rows: Vec<_> = (0..4000)
        .map(|lsn| {
            let mut vector = random.vector(7);
            vector[0] = -vector[0].abs();
            Memory::plain(lsn, normalised(vector.into_iter().map(f64::from).collect()))
        })
        .collect();
    let world = world(7, vec![rows]);
    let ask = Ask::plain(vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 10);
    for kernels in available() {
        let outcome = ask.scan(&world, kernels);
        check(&ask, &world, &outcome);
        assert!(outcome.hits.iter().all(|hit| hit.score == 0.0 && hit.cosine < 0.0));
        assert!(outcome.candidates < 100, "{}", outcome.candidates);
    }
}

#[test]
fn none_are_wanted_and_all_are_wanted() {
    let mut random = Random(3);
    let world = random_world(&mut random, 16, 400);
    for kernels in available() {
        let ask = Ask::plain(random.vector(16), 0);
        assert_eq!(ask.scan(&world, kernels), ScanOutcome::default());
        for k in [401, usize::MAX] {
            let ask = Ask { k, ..ask.clone() };
            let outcome = ask.scan(&world, kernels);
            assert_eq!(outcome.hits.len() as u64, world.reader.live());
            check(&ask, &world, &outcome);
        }
    }
}

#[test]
fn an_empty_store_answers_nothing() {
    let world = world(16, vec![]);
    let outcome = Ask::plain(Random(4).vector(16), 5).scan(&world, available()[0]);
    assert_eq!(outcome, ScanOutcome::default());
}

#[test]
fn what_is_not_admitted_is_not_read() {
    let mut random = Random(5);
    let mut rows: Vec<_> = (0..3000).map(|lsn| Memory::plain(lsn, random.vector(16))).collect();
    // One block has one row of the tag, one has most, one has none.
    rows[2050].tags = vec![3];
    rows[..600].iter_mut().for_each(|row| row.tags = vec![3]);
    let others = (0..500).map(|lsn| Memory::plain(10_000 + lsn, random.vector(16))).collect();
    let world = world(16, vec![rows, others]);
    let mut ask = Ask::plain(random.vector(16), 5);
    ask.filter.tags_all = vec!["3".to_owned()];
    for kernels in available() {
        let outcome = ask.scan(&world, kernels);
        assert_eq!((outcome.admitted, outcome.rows_scanned), (601, 1025));
        assert!((1025 * 64 + 1024 * 64..=1025 * 128).contains(&outcome.bytes), "{}", outcome.bytes);
        check(&ask, &world, &outcome);
        let bare = Ask { weights: Weights { importance: 0.0, ..Weights::default() }, ..ask.clone() };
        let outcome = bare.scan(&world, kernels);
        assert_eq!(outcome.bytes, 1025 * 64, "no header has a say");
        check(&bare, &world, &outcome);
    }
}

#[test]
fn headers_of_rows_without_a_chance_are_not_read() {
    let mut random = Random(9);
    let rows = (0..8000).map(|lsn| Memory::plain(lsn, random.vector(16))).collect();
    let world = world(16, vec![rows]);
    let ask = Ask::plain(random.vector(16), 5);
    for kernels in available() {
        let outcome = ask.scan(&world, kernels);
        check(&ask, &world, &outcome);
        assert!((8000 * 64 + 1024 * 64..8000 * 64 + 2000 * 64).contains(&outcome.bytes), "{}", outcome.bytes);
    }
}

#[test]
fn a_query_of_another_dimension_is_refused() {
    let mut random = Random(6);
    let world = random_world(&mut random, 16, 20);
    let ask = Ask::plain(random.vector(17), 3);
    let outcome = ask.with(|request| scan(&world.reader, available()[0], &world.index, request));
    assert!(matches!(outcome, Err(KernelError::Internal(_))), "{outcome:?}");
}

/// At this dimension `f32` sums are off by far more than 1e-5, and by different amounts under different kernels.
#[test]
fn rounding_at_the_largest_dimension_loses_nobody() {
    let dimension = 65_535;
    let query = normalised(vec![1.0; dimension]);
    // Nearly equal rows whose sums round differently: each has another share of its length in the first value.
    let mut rows: Vec<_> = (0..16)
        .map(|lsn| {
            let mut values = vec![1.0 + lsn as f64 * 0.037; dimension];
            values[..64].fill(1.0 + 0.25 * lsn as f64);
            // Nothing lowers the score, so that the dot product alone says who has a chance.
            Memory { importance: 10.0, ..Memory::plain(lsn, normalised(values)) }
        })
        .collect();
    // Later slabs meet what the earlier ones raised the threshold to: those that a kernel takes for better than they are come first.
    let flattery = |row: &Memory| f64::from(available()[1].dot(&query, &row.vector)) - canonical_cosine(&query, &row.vector);
    rows.sort_by(|a, b| flattery(b).total_cmp(&flattery(a)));
    let last = rows.split_off(10);
    let middle = rows.split_off(5);
    let world = world(dimension, vec![rows, middle, last]);
    let scanned = |kernels: &Kernels, k| Ask::plain(query.clone(), k).scan(&world, kernels).hits;
    let all = scanned(available()[0], 16);
    let approximate =
        |kernels: &Kernels, hit: &Scored| kernels.dot(&query, &world.rows.iter().find(|row| row.lsn == hit.lsn).unwrap().vector);
    let misled = available().iter().any(|kernels| all.iter().any(|hit| approximate(kernels, hit) > approximate(kernels, &all[0]) + 1e-5));
    assert!(misled, "the rows do not show what they are meant to");
    for kernels in available() {
        for k in 1..16 {
            assert_eq!(scanned(kernels, k), all[..k], "{} k = {k}", kernels.name());
        }
    }
}

#[test]
fn a_row_has_the_same_key_among_few_as_among_all() {
    let mut random = Random(8);
    let mut rows = super::fixture::memories(&mut random, 16, 2000);
    rows.iter_mut().step_by(3).for_each(|row| row.state = Some((1.0 + random.below(9) as f32, random.below(255) as i8)));
    let world = world(16, vec![rows]);
    let weights = Weights { importance: 1.0, tags: 1.0, mood: 1.0, floor: 0.1 };
    let ask = Ask { weights, optional: vec![1, 2], mood: Some(-50), ..Ask::plain(random.vector(16), 1) };
    let slab = &world.reader.view.slabs[0];
    let selected: Vec<u64> = (0..16).map(|_| random.bits() & random.bits()).collect();
    let selected: Vec<u64> = selected.into_iter().zip(slab.live_bits().split_off(16)).map(|(some, live)| some & live).collect();
    for kernels in available() {
        ask.with(|request| {
            let (mut all, mut some) = (Block::default(), Block::default());
            let headers = &slab.rows.headers(&world.reader.pass)[1024..2000];
            let rows = Rows { slab, first: 1024, headers, vectors: &slab.rows.vectors(&world.reader.pass)[1024 * 16..2000 * 16] };
            let scorer = request.scorer();
            assert_eq!(all.multiply(kernels, request.query, &rows, &[], 976), 976);
            all.fuse_all(&scorer, &rows);
            let count = kernels.bits_count(&selected);
            assert_eq!(some.multiply(kernels, request.query, &rows, &selected, count), count);
            some.fuse_some(&scorer, &rows, &selected);
            for place in (0..headers.len()).filter(|place| selected[place / 64] >> (place % 64) & 1 == 1) {
                assert_eq!(all.keys[place].to_bits(), some.keys[place].to_bits());
                let scored = rescore(&world.reader, &scorer, request.query, 1024 + place as u64).unwrap();
                let off = (f64::from(all.keys[place]) - Scorer::canonical_key(&scored)).abs();
                assert!(off <= scorer.error_bound(16), "{off}");
            }
        });
    }
}
