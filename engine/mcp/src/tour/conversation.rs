//! What two people who do not exist told an assistant and each other, in three sessions: the data of the tour.

/// One thing that was said.
#[derive(Debug)]
pub(super) struct Utterance {
    pub(super) session: &'static str,
    pub(super) at: &'static str,
    pub(super) speaker: &'static str,
    pub(super) text: &'static str,
    pub(super) tags: &'static [&'static str],
}

const fn says(
    session: &'static str,
    at: &'static str,
    speaker: &'static str,
    text: &'static str,
    tags: &'static [&'static str],
) -> Utterance {
    Utterance { session, at, speaker, text, tags }
}

/// In the order in which it was said.
#[rustfmt::skip]
pub(super) const CONVERSATION: &[Utterance] = &[
    says("spring", "2026-03-02T18:04:00Z", "Ines", "I bought the old sailing boat at last: she is called Petrel and leaks like a basket.", &["ines", "boat"]),
    says("spring", "2026-03-02T18:05:00Z", "Tobias", "Congratulations! Where will you keep her over the summer?", &["tobias", "boat"]),
    says("spring", "2026-03-02T18:06:00Z", "Ines", "Berth 14 in the harbour of Lindvik, next to the fuel dock.", &["ines", "boat", "place"]),
    says("spring", "2026-03-02T18:08:00Z", "Tobias", "My bakery opens at six, so I can bring bread down to the dock before work.", &["tobias", "work"]),
    says("spring", "2026-03-02T18:09:00Z", "Ines", "Lovely, but no walnut bread please: walnuts make my throat swell.", &["ines", "health"]),
    says("spring", "2026-03-02T18:10:00Z", "Tobias", "Noted, no walnuts. Kepler will eat whatever you leave, he is that sort of dog.", &["tobias", "pet"]),
    says("spring", "2026-03-02T18:12:00Z", "Ines", "Bring Kepler along! A dog belongs on a boat.", &["ines", "pet", "boat"]),
    says("spring", "2026-03-02T18:13:00Z", "Tobias", "He is afraid of water, which is a funny thing in a retriever.", &["tobias", "pet"]),
    says("spring", "2026-03-02T18:15:00Z", "Ines", "The mast needs replacing; the yard asks 2400 euros for a spruce one.", &["ines", "boat", "money"]),
    says("june", "2026-06-14T09:30:00Z", "Ines", "The new mast is up, and Petrel sailed to Ravnholm and back on Saturday.", &["ines", "boat", "travel"]),
    says("june", "2026-06-14T09:31:00Z", "Tobias", "How long did the crossing take?", &["tobias", "travel"]),
    says("june", "2026-06-14T09:32:00Z", "Ines", "Five hours out with the wind behind us, nine hours home against it.", &["ines", "travel"]),
    says("june", "2026-06-14T09:34:00Z", "Tobias", "I have news too: I sold the bakery to my sister Maren.", &["tobias", "work", "family"]),
    says("june", "2026-06-14T09:35:00Z", "Ines", "You sold it? What will you do now?", &["ines", "work"]),
    says("june", "2026-06-14T09:36:00Z", "Tobias", "I start in September as a teacher at the cooking school in Ostby.", &["tobias", "work", "place"]),
    says("june", "2026-06-14T09:38:00Z", "Ines", "Then you will need a flat there. My cousin Leif rents one out by the tram line.", &["ines", "place", "family"]),
    says("june", "2026-06-14T09:40:00Z", "Tobias", "Please ask him whether a dog is allowed.", &["tobias", "pet", "place"]),
    says("october", "2026-10-03T20:15:00Z", "Tobias", "Leif said yes, so Kepler and I live at 9 Tram Street now.", &["tobias", "pet", "place"]),
    says("october", "2026-10-03T20:16:00Z", "Ines", "How are the students?", &["ines", "work"]),
    says("october", "2026-10-03T20:17:00Z", "Tobias", "Keen, and they burn everything. The sourdough class is full until February.", &["tobias", "work"]),
    says("october", "2026-10-03T20:19:00Z", "Ines", "I hauled Petrel out for the winter; the hull gets copper paint in April.", &["ines", "boat"]),
    says("october", "2026-10-03T20:20:00Z", "Tobias", "Did the doctor ever test you for other nuts?", &["tobias", "health"]),
    says("october", "2026-10-03T20:21:00Z", "Ines", "Yes: hazelnuts and almonds are fine, walnuts and pecans are not.", &["ines", "health"]),
    says("october", "2026-10-03T20:23:00Z", "Tobias", "Then I shall bake you an almond cake for your birthday on the ninth of November.", &["tobias", "family"]),
    says("october", "2026-10-03T20:24:00Z", "Ines", "The door code of my house is 4711 from today on, come in when it rains.", &["ines", "secret"]),
];

/// What is asked of it.
pub(super) const QUESTION: &str = "Are walnuts bad for Ines?";
/// A question that only memories with [`FILTER_TAG`] may answer.
pub(super) const FILTERED_QUESTION: &str = "What about Tobias and his dog?";
/// The tag of the filter.
pub(super) const FILTER_TAG: &str = "pet";
/// A question whose answer is to be forgotten.
pub(super) const SECRET_QUESTION: &str = "What is the door code of the house?";
/// The tag that only the memory to be forgotten carries.
pub(super) const SECRET_TAG: &str = "secret";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conversation_has_three_sessions_in_order_of_time_and_one_secret() {
        let mut sessions: Vec<_> = CONVERSATION.iter().map(|said| said.session).collect();
        sessions.dedup();
        assert_eq!(sessions, ["spring", "june", "october"]);
        assert!(CONVERSATION.is_sorted_by_key(|said| said.at));
        assert_eq!(CONVERSATION.iter().filter(|said| said.tags.contains(&SECRET_TAG)).count(), 1);
        assert!(CONVERSATION.iter().any(|said| said.tags.contains(&FILTER_TAG)));
    }
}
