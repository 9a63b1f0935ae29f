"""What the sample dataset talks about: word lists, columns, facts and the phrases of its questions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a passage tells of its subject {s}: a noun to ask for it, a pool of values {v}, sentences."""

    noun: str
    pool: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DomainColumn:
    """One column: the pool of its values, the phrases that single out a row by it, and what its passages tell."""

    header: str
    pool: str
    phrases: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()

    @property
    def noun(self) -> str:
        """The word that a question uses for the column."""
        return self.header.lower()


@dataclass(frozen=True, slots=True)
class Domain:
    """A kind of table; the first column with facts is its subject.

    Args:
        names: title of the table, with {place}.
        pronoun: "who" or "that", for the subject.
    """

    names: tuple[str, ...]
    pronoun: str
    columns: tuple[DomainColumn, ...]

    @property
    def subject(self) -> DomainColumn:
        """The column that the table is about."""
        return next(column for column in self.columns if column.facts)


def _fact(noun: str, pool: str, *sentences: str) -> Fact:
    return Fact(noun, pool, sentences)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _pairs(firsts: str, seconds: str, pattern: str = "{} {}") -> tuple[str, ...]:
    """Every word of the one list with every word of the other."""
    return tuple(pattern.format(first, second) for first in firsts.split() for second in seconds.split())


POOLS: dict[str, tuple[str, ...]] = {
    "person": _pairs(
        "Ada Ben Clara David Elena Felix Greta Hugo Iris Jonas Karin Leo Maria Nils Olga Paul Rosa Simon Tara "
        "Victor Wanda Yuri Zoe Anton Bella Carl Dora Emil Frida Gustav",
        "Abel Brandt Castro Dahl Ekman Fischer Garcia Hansen Ivanov Jensen Keller Lopez Moreno Novak Olsen "
        "Peters Quinn Rossi Silva Torres Unger Vargas Weber Young Zeman Berg Costa Duarte Falk Hahn",
    ),
    "city": _words(
        "Lisbon Oslo Vienna Prague Dublin Athens Warsaw Madrid Helsinki Geneva Munich Porto Turin Lyon Ghent "
        "Bergen Krakow Seville Riga Vilnius Zagreb Basel Bremen Nantes Leeds Malmo Graz Bari Split Cork"
    ),
    "country": _words("Norway Spain France Italy Poland Greece Austria Ireland Finland Portugal Sweden Latvia"),
    "instrument": _words("piano violin guitar flute trumpet cello drums harp organ clarinet banjo accordion"),
    "animal": _words("fox owl bear wolf heron otter badger hare swan lynx eagle salmon beaver raven"),
    "colour": _words("red blue green yellow white black orange purple silver golden brown grey"),
    "stone": _words("granite marble limestone basalt sandstone slate brick clay chalk quartz flint gravel"),
    "school": _pairs("North River Hill Forest Bay Castle Harbour Garden", "College Academy"),
    "company": _pairs("Atlas Comet Delta Falcon Meridian Orion Polar Summit", "Works Group"),
    "genre": _words("comedy drama western thriller musical mystery romance fantasy horror adventure"),
    "ingredient": _words("rice beans lentils potatoes mushrooms carrots pumpkin spinach noodles barley tomatoes"),
    "spice": _words("pepper ginger saffron cinnamon garlic mint paprika basil thyme cumin parsley nutmeg"),
    "planet": _words(
        "Arda Borea Calyx Dione Erebus Fornax Gaia Helion Ilion Juno Kepler Lyra Mira Nereus Orcus Pallas "
        "Quor Rhea Sedna Talos"
    ),
    "gas": _words("helium methane nitrogen argon neon oxygen hydrogen ammonia ozone xenon"),
    "river": _words(
        "Alva Brena Corin Dovra Elba Fenn Gail Horva Isen Jarl Kama Lenn Morava Nidd Orva Pell Rhon Sava Tarn Ula"
    ),
    "sea": _words("Amber Coral Frost Mist Pearl Storm Summer Winter Salt Mirror Shadow Sand"),
    "mountain": _words(
        "Aldhorn Brocken Cima Drakentop Eiswand Falknis Grauspitz Hornberg Isarkopf Jungstein Kaldfell Lauban "
        "Montero Nordwand Ostgrat Piz"
    ),
    "film": _pairs("Last Silent Hidden Long Lost Secret", "Garden Train Winter Letter Island Voyage", "The {} {}"),
    "ship": _pairs("Royal Northern Brave Swift Proud Gentle", "Star Wave Queen Wind Spirit Arrow"),
    "dish": _pairs("Farmer Island Market Winter Shepherd Harvest", "Soup Stew Pie Salad Curry Bake"),
    "stadium": _pairs("Central Victory Liberty Eastern Olympic Memorial", "Park Arena Field Ground Dome Stadium"),
    "book": _pairs("Book House Song Year Map Night", "Rain Stars Bread Glass Snow Fire", "A {} of {}"),
}
"""Values to draw from, by name; a pool named "a..b/s" instead draws numbers from a to b in steps of s."""

HOMETOWN = _fact("hometown", "city", "The hometown of {s} is {v} .", "{s} left the hometown {v} at a young age .")
INSTRUMENT = _fact("instrument", "instrument", "The favourite instrument of {s} is the {v} .")
SCHOOL = _fact("school", "school", "{s} went to school at {v} .", "The school of {s} was {v} .")
PET = _fact("pet", "animal", "{s} keeps a {v} as a pet .", "The pet of {s} is a tame {v} .")
OWNER = _fact("owner", "company", "The owner of {s} is the {v} .", "Since last year the owner is the {v} .")
BUILDER = _fact("builder", "company", "The builder of {s} was the {v} .", "{s} was planned by its builder , the {v} .")
COLOUR = _fact("colour", "colour", "The colour of {s} is {v} .", "Seen from afar {s} has a {v} colour .")
STONE = _fact("stone", "stone", "The main stone of {s} is {v} .", "{s} is known for its {v} stone .")
ANIMAL = _fact("animal", "animal", "The animal on the sign of {s} is the {v} .", "A {v} is the animal of {s} .")
SPICE = _fact("spice", "spice", "The main spice of {s} is {v} .", "Cooks add {v} as a spice to {s} .")
ORIGIN = _fact("origin", "city", "The origin of {s} is the town of {v} .", "{s} has its origin in {v} .")
GAS = _fact("gas", "gas", "The air of {s} holds a gas called {v} .", "{v} is the common gas on {s} .")
COMPOSER = _fact("composer", "person", "The composer of {s} was {v} .", "{v} is the composer of the music of {s} .")

_YEAR_OF_WIN = ("won in {v}", "took the title in {v}")
DOMAINS: tuple[Domain, ...] = (
    Domain(
        ("Tennis champions of {place}", "Winners of the {place} Open"),
        "who",
        (
            DomainColumn("Year", "1950..1999/1", _YEAR_OF_WIN),
            DomainColumn("Player", "person", ("is called {v}",), (HOMETOWN, INSTRUMENT, SCHOOL)),
            DomainColumn("Country", "country"),
            DomainColumn("Points", "210..890/10", ("scored {v} points", "finished with {v} points")),
        ),
    ),
    Domain(
        ("Stadiums of {place}", "Football grounds near {place}"),
        "that",
        (
            DomainColumn("Stadium", "stadium", ("is called {v}",), (BUILDER, COLOUR)),
            DomainColumn("City", "city", ("stands in {v}",)),
            DomainColumn("Opened", "1900..1989/1", ("opened in {v}", "was opened in {v}")),
            DomainColumn("Capacity", "12000..68000/500", ("has a capacity of {v}", "seats {v} people")),
            DomainColumn("Team", "animal"),
        ),
    ),
    Domain(
        ("Rivers of {place}", "Longest rivers around {place}"),
        "that",
        (
            DomainColumn("River", "river", ("is called {v}",), (STONE, COLOUR, ANIMAL)),
            DomainColumn("Length", "105..980/5", ("has a length of {v} km", "is {v} km long")),
            DomainColumn("Sea", "sea"),
            DomainColumn("Bridges", "3..48/1", ("has {v} bridges", "is crossed by {v} bridges")),
        ),
    ),
    Domain(
        ("Films shown in {place}", "{place} film festival"),
        "that",
        (
            DomainColumn("Year", "1930..2009/1", ("came out in {v}", "was shown in {v}")),
            DomainColumn("Film", "film", ("is called {v}",), (COMPOSER, ORIGIN)),
            DomainColumn("Director", "person", ("was directed by {v}",), (HOMETOWN, PET, INSTRUMENT)),
            DomainColumn("Genre", "genre"),
            DomainColumn("Minutes", "71..189/1", ("lasts {v} minutes", "runs for {v} minutes")),
        ),
    ),
    Domain(
        ("Planets seen from {place}", "Planets in the {place} catalogue"),
        "that",
        (
            DomainColumn("Planet", "planet", ("is called {v}",), (GAS, COLOUR)),
            DomainColumn("Moons", "1..29/1", ("has {v} moons",)),
            DomainColumn("Distance", "110..990/10", ("lies at a distance of {v}",)),
            DomainColumn("Found", "1780..1969/1", ("was found in {v}", "was first seen in {v}")),
            DomainColumn("Finder", "person", ("was found by {v}",), (HOMETOWN, SCHOOL, PET)),
        ),
    ),
    Domain(
        ("Recipes from {place}", "The {place} cook book"),
        "that",
        (
            DomainColumn("Page", "12..240/1", ("is on page {v}", "can be read on page {v}")),
            DomainColumn("Dish", "dish", ("is called {v}",), (SPICE, ORIGIN, COLOUR)),
            DomainColumn("Minutes", "15..95/5", ("takes {v} minutes", "is ready in {v} minutes")),
            DomainColumn("Ingredient", "ingredient"),
        ),
    ),
    Domain(
        ("Ships of {place}", "Ships built in {place}"),
        "that",
        (
            DomainColumn("Ship", "ship", ("is called {v}",), (OWNER, ANIMAL)),
            DomainColumn("Launched", "1850..1959/1", ("was launched in {v}", "went to sea in {v}")),
            DomainColumn("Crew", "14..420/2", ("has a crew of {v}", "carries a crew of {v}")),
            DomainColumn("Captain", "person", ("sails under {v}",), (HOMETOWN, PET, INSTRUMENT)),
            DomainColumn("Harbour", "city"),
        ),
    ),
    Domain(
        ("Mountains of {place}", "Peaks above {place}"),
        "that",
        (
            DomainColumn("Mountain", "mountain", ("is called {v}",), (STONE, ANIMAL)),
            DomainColumn("Height", "1510..4790/10", ("has a height of {v} m", "is {v} m high")),
            DomainColumn("Climbed", "1820..1939/1", ("was climbed in {v}", "was first climbed in {v}")),
            DomainColumn("Climber", "person", ("was climbed by {v}",), (HOMETOWN, SCHOOL)),
            DomainColumn("Country", "country"),
        ),
    ),
    Domain(
        ("Mayors of {place}", "Heads of the council of {place}"),
        "who",
        (
            DomainColumn("Number", "1..60/1", ("was number {v}", "came as number {v}")),
            DomainColumn("Mayor", "person", ("is called {v}",), (SCHOOL, PET, HOMETOWN, INSTRUMENT)),
            DomainColumn("Elected", "1890..1989/1", ("was elected in {v}", "took office in {v}")),
            DomainColumn("Votes", "1050..9950/50", ("won {v} votes", "got {v} votes")),
        ),
    ),
    Domain(
        ("Books printed in {place}", "Library of {place}"),
        "that",
        (
            DomainColumn("Book", "book", ("is called {v}",), (OWNER, COLOUR)),
            DomainColumn("Writer", "person", ("was written by {v}",), (HOMETOWN, INSTRUMENT, PET)),
            DomainColumn("Printed", "1800..1979/1", ("was printed in {v}", "appeared in {v}")),
            DomainColumn("Pages", "84..760/4", ("has {v} pages", "fills {v} pages")),
            DomainColumn("Shelf", "colour"),
        ),
    ),
)

TABLE_ASKS = (
    "what is the {target} of {reference} ?",
    "which {target} belongs to {reference} ?",
    "name the {target} of {reference} .",
    "for {reference} , what is the {target} ?",
)
SUBJECT_ASKS = ("which {target} {phrase} ?", "name the {target} {pronoun} {phrase} .", "what {target} {phrase} ?")
PASSAGE_ASKS = (
    "what is the {target} of {reference} ?",
    "which {target} has {reference} ?",
    "tell me the {target} of {reference} .",
    "for {reference} , what is the {target} ?",
)
"""How a question is put: {reference} names the row or its linked cell, {target} is the column or the fact."""
