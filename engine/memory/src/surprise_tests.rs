use super::*;
use proptest::prelude::*;

/// Statistics of `count` samples with this mean and population deviation.
fn history(count: u64, mean: f64, deviation: f64) -> Statistics {
    Statistics { count, mean, m2: deviation * deviation * count as f64 }
}

fn with_vector<'a>(neighbours: &'a [(f64, i8)]) -> SurpriseInput<'a> {
    SurpriseInput { neighbours, has_vector: true, ..SurpriseInput::default() }
}

fn close(found: f32, wanted: f64) {
    assert!((f64::from(found) - wanted).abs() < 1e-6, "found {found}, wanted {wanted}");
}

#[test]
fn novelty_is_one_without_memories_and_the_distance_to_the_nearest_otherwise() {
    assert_eq!(assess(&with_vector(&[]), Statistics::default()).novelty, Some(1.0));
    let near = assess(&with_vector(&[(0.25, 0), (0.75, 0)]), Statistics::default());
    assert_eq!(near.novelty, Some(0.25));
    let beyond = assess(&with_vector(&[(1.000_000_1, 0)]), Statistics::default());
    assert_eq!(beyond.novelty, Some(0.0));
    assert_eq!(assess(&with_vector(&[(-1.0, 0)]), Statistics::default()).novelty, Some(2.0));
}

#[test]
fn novelty_is_judged_from_the_tenth_sample_on() {
    let input = with_vector(&[(0.4, 0)]);
    let early = assess(&input, history(9, 0.3, 0.1));
    assert_eq!((early.z, early.importance), (0.0, 1.0));
    let judged = assess(&input, history(10, 0.3, 0.1));
    close(judged.z, 3.0);
    close(judged.importance, 0.05 + 9.95 / (1.0 + (-2.4_f64).exp()));
}

#[test]
fn the_deviation_has_a_floor() {
    close(assess(&with_vector(&[(0.96, 0)]), history(50, 0.0, 0.0)).z, 2.0);
    close(assess(&with_vector(&[(0.96, 0)]), history(50, 0.0, 0.04)).z, 1.0);
}

#[test]
fn a_hint_replaces_the_importance_from_novelty_with_the_stimulus() {
    let mut input = with_vector(&[(0.7, 0)]);
    let before = history(10, 0.3, 0.1);
    let n = (0.05 + 9.95 / (1.0 + 1.2_f64.exp())) / 10.0;
    close(assess(&input, before).importance, 10.0 * n);
    let expected = |stimulus: f64| 0.05 + 9.95 / (1.0 + (-8.0 * (stimulus - 0.2)).exp());
    input.hints.interest = Some(0.5);
    close(assess(&input, before).importance, expected(0.15 * n + 0.4 * n));
    input.hints.challenge = Some(0.6);
    input.hints.urgency = Some(0.9);
    close(assess(&input, before).importance, expected(0.15 * n + 0.06 + 0.18 + 0.4 * n));
    // A hint of zero is a hint.
    input.hints = Hints { urgency: Some(0.0), ..Hints::default() };
    close(assess(&input, before).importance, expected(0.4 * n));
    // While novelty is unjudged, N is 0.1.
    close(assess(&input, Statistics::default()).importance, expected(0.04));
}

#[test]
fn the_prediction_is_the_weighted_valence_of_near_neighbours() {
    let neighbours = [(0.9, 127), (0.3, -127), (0.29, -127)];
    let input = SurpriseInput { reward: Some(-0.5), ..with_vector(&neighbours) };
    let predicted: f64 = 0.6 / 1.2;
    let assessed = assess(&input, Statistics::default());
    assert!((assessed.delta - 1.0).abs() < 1e-12);
    close(assessed.importance, 1.5);
    assert_eq!(assessed.valence, (127.0 * (predicted + 0.7 * (-0.5 - predicted))).round() as i8);
    assert_eq!(assessed.arousal, 255);
}

#[test]
fn without_reward_and_valence_nothing_was_predicted_wrongly() {
    let assessed = assess(&with_vector(&[(0.9, 127)]), Statistics::default());
    assert_eq!((assessed.delta, assessed.valence, assessed.arousal), (0.0, 0, 0));
}

#[test]
fn a_given_valence_is_kept_exactly_and_stands_in_for_a_reward() {
    for valence in -127..=127 {
        let input = SurpriseInput { valence: Some(valence), ..with_vector(&[]) };
        let assessed = assess(&input, Statistics::default());
        assert_eq!(assessed.valence, valence);
        assert!((assessed.delta - f64::from(valence.unsigned_abs()) / 127.0).abs() < 1e-12);
        // 255 / 127 is above 2, so the prediction error decides.
        let surprised = (255.0 * f64::from(valence.unsigned_abs()) / 127.0).round() as u8;
        assert_eq!(assessed.arousal, surprised);
    }
    // The reward is what the prediction is held against where both are given.
    let both = SurpriseInput { valence: Some(-100), reward: Some(0.25), ..with_vector(&[]) };
    let assessed = assess(&both, Statistics::default());
    assert_eq!((assessed.valence, assessed.delta), (-100, 0.25));
    assert_eq!(assessed.arousal, 200);
    let calm = SurpriseInput { arousal: Some(3), ..both };
    assert_eq!(assess(&calm, Statistics::default()).arousal, 3);
}

#[test]
fn importance_stays_in_range_after_the_prediction_error() {
    let input = SurpriseInput { reward: Some(-1.0), ..with_vector(&[(0.31, 127)]) };
    // z = 2.5 alone gives 8.6; the error of 2 would give 17.
    let assessed = assess(&input, history(100, 0.44, 0.1));
    assert!(!assessed.flashbulb);
    assert_eq!(assessed.importance, 10.0);
}

#[test]
fn a_flashbulb_needs_a_high_z_and_twenty_samples() {
    let input = with_vector(&[(0.1, 0)]);
    assert!(!assess(&input, history(19, 0.1, 0.1)).flashbulb);
    let flash = assess(&input, history(20, 0.1, 0.1));
    assert!(flash.flashbulb && flash.importance == 10.0);
    // A z of 3 exactly is not above it: 0.75 - 0.375 is three times 0.125.
    assert!(!assess(&with_vector(&[(0.25, 0)]), history(64, 0.375, 0.125)).flashbulb);
    let dulled = SurpriseInput { temper: Some(Temper { boosts: &[0.1], valence_gain: 1.0 }), ..input };
    assert_eq!(assess(&dulled, history(20, 0.1, 0.1)).importance, 10.0);
}

#[test]
fn a_persona_multiplies_importance_and_valence() {
    let temper = |boosts, valence_gain| {
        let input = SurpriseInput { valence: Some(-40), arousal: None, temper: Some(Temper { boosts, valence_gain }), ..with_vector(&[]) };
        assess(&input, Statistics::default())
    };
    let plain = temper(&[], 1.0);
    let base = 1.0 + 40.0 / 127.0 / 2.0;
    close(plain.importance, base);
    close(temper(&[2.0, 1.5], 1.0).importance, 3.0 * base);
    close(temper(&[0.0], 1.0).importance, 0.05);
    close(temper(&[10.0, 10.0], 1.0).importance, 10.0);
    assert_eq!(temper(&[], 1.5).valence, -60);
    assert_eq!(temper(&[], -1.5).valence, 60);
    assert_eq!(temper(&[], 10.0).valence, -127);
    assert_eq!(temper(&[], 10.0).arousal, plain.arousal);
    let neutral = SurpriseInput { temper: Some(Temper { boosts: &[], valence_gain: -10.0 }), ..with_vector(&[]) };
    assert_eq!(assess(&neutral, Statistics::default()).valence, 0);
}

#[test]
fn without_a_vector_there_is_no_sample() {
    let before = history(100, 0.2, 0.1);
    let input = SurpriseInput { neighbours: &[(1.0, -127)], ..SurpriseInput::default() };
    let assessed = assess(&input, before);
    assert_eq!((assessed.z, assessed.importance), (0.0, 1.0));
    assert_eq!((assessed.after, assessed.novelty), (before, None));
    let hinted = SurpriseInput { reward: Some(0.5), ..input };
    assert_eq!(assess(&hinted, before).delta, 0.5, "the neighbours were looked at");
}

#[test]
fn identical_vectors_never_flash() {
    let mut statistics = assess(&with_vector(&[]), Statistics::default()).after;
    for _ in 0..10_000 {
        let assessed = assess(&with_vector(&[(1.0, 0); 8]), statistics);
        assert!(!assessed.flashbulb && assessed.z <= 0.0);
        statistics = assessed.after;
    }
}

#[test]
fn something_new_after_a_monotonous_history_flashes() {
    let mut statistics = Statistics::default();
    for i in 0..20 {
        let cosine = 0.8 + f64::from(i % 3) * 0.01;
        statistics = assess(&with_vector(&[(cosine, 0)]), statistics).after;
    }
    assert!(assess(&with_vector(&[(0.05, 0)]), statistics).flashbulb);
}

#[test]
fn bytes_no_statistics_have_are_refused() {
    let mut bytes = history(3, 0.5, 0.1).to_bytes();
    assert_eq!(Statistics::from_bytes(&bytes), Some(history(3, 0.5, 0.1)));
    bytes[16..].copy_from_slice(&(-1.0_f64).to_le_bytes());
    assert_eq!(Statistics::from_bytes(&bytes), None);
    bytes[8..16].copy_from_slice(&f64::NAN.to_le_bytes());
    assert_eq!(Statistics::from_bytes(&bytes), None);
}

#[test]
fn the_arithmetic_never_changes() {
    // Golden bits: results must not depend on the platform or the compiler.
    let input = SurpriseInput {
        hints: Hints { interest: Some(0.3), challenge: None, urgency: Some(0.7) },
        reward: Some(0.4),
        ..with_vector(&[(0.61, 55), (0.42, -8)])
    };
    let assessed = assess(&input, history(37, 0.31, 0.07));
    let bits = (assessed.importance.to_bits(), assessed.z.to_bits(), assessed.delta.to_bits(), assessed.after.m2.to_bits());
    assert_eq!(bits, GOLDEN);
}
const GOLDEN: (u32, u32, u64, u64) = (1_091_690_210, 1_066_551_589, 4_595_264_353_852_325_414, 4_595_924_557_483_075_978);

proptest! {
    #[test]
    fn moments_equal_those_computed_in_two_passes(
        samples in prop::collection::vec(0.0_f64..=2.0, 1..200)
    ) {
        let running = samples.iter().fold(Statistics::default(), |s, x| s.with(*x));
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        prop_assert_eq!(running.count, samples.len() as u64);
        prop_assert!((running.mean - mean).abs() < 1e-12);
        prop_assert!((running.deviation() - variance.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn stored_statistics_go_on_bit_equally(
        samples in prop::collection::vec(-1.0_f64..=1.0, 1..100), cut in any::<prop::sample::Index>(),
    ) {
        let (mut straight, mut reopened) = (Statistics::default(), Statistics::default());
        for (i, cosine) in samples.iter().enumerate() {
            let neighbours = [(*cosine, 5)];
            let one = assess(&with_vector(&neighbours), straight);
            let other = assess(&with_vector(&neighbours), reopened);
            prop_assert_eq!(one.z.to_bits(), other.z.to_bits());
            (straight, reopened) = (one.after, other.after);
            if i == cut.index(samples.len()) {
                reopened = Statistics::from_bytes(&reopened.to_bytes()).unwrap();
            }
        }
        prop_assert_eq!(straight.to_bytes(), reopened.to_bytes());
    }

    #[test]
    fn results_stay_in_range(
        neighbours in prop::collection::vec((-1.0_f64..=1.0, -127_i8..=127), 0..8),
        has_vector: bool,
        hints in (prop::option::of(0.0_f64..=1.0), prop::option::of(0.0_f64..=1.0)),
        reward in prop::option::of(-1.0_f64..=1.0),
        valence in prop::option::of(-127_i8..=127),
        boosts in prop::collection::vec(0.0_f64..=10.0, 0..300),
        valence_gain in -10.0_f64..=10.0,
        (count, mean, deviation) in (0_u64..100, 0.0_f64..=2.0, 0.0_f64..=1.0),
    ) {
        let input = SurpriseInput {
            neighbours: &neighbours, has_vector, reward, valence, arousal: None,
            hints: Hints { interest: hints.0, challenge: None, urgency: hints.1 },
            temper: Some(Temper { boosts: &boosts, valence_gain }),
        };
        let assessed = assess(&input, history(count, mean, deviation));
        prop_assert!((0.05_f32..=10.0).contains(&assessed.importance));
        prop_assert!(assessed.z.is_finite() && (0.0..=2.000_001).contains(&assessed.delta));
        prop_assert!(assessed.valence >= -127);
    }
}
