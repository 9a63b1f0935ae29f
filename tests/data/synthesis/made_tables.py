"""Made-up tables with passages, rich enough for every kind of question."""

import random

from mate_cli.tables.table import Cell, Table


def _words(text: str) -> list[str]:
    return text.split()


FIRST = _words("Ada Ben Clara David Elena Felix Greta Hugo Iris Jonas Karin Leo Maria Nils Olga Paul Rosa Simon")
LAST = _words("Abel Brandt Castro Dahl Ekman Fischer Garcia Hansen Ivanov Jensen Keller Lopez Moreno Novak Olsen")
PLACES = _words("Lisbon Oslo Vienna Prague Dublin Athens Warsaw Madrid Helsinki Geneva Munich Porto Turin Lyon")
PEOPLES = _words("Norwegian Spanish French Italian Polish Austrian Irish Finnish Swedish Latvian Danish Dutch")
WORKS = _words("footballer painter carpenter sailor teacher banker pianist surgeon farmer chemist")
COMPANIES = _words("Atlas Comet Delta Falcon Meridian Orion Polar Summit Vega Zenith Quartz Beacon")
MONTHS = _words("January February March April May June July August September October")


def player_table(seed: int, rows: int = 7) -> Table:
    """Players with years, clubs, points and cities; players and clubs are linked, and cells of a column differ."""
    rng = random.Random(seed)
    players = [
        f"{first} {last}" for first, last in zip(*(rng.sample(some, rows) for some in (FIRST, LAST)), strict=True)
    ]
    clubs = [
        f"{place} {name}" for place, name in zip(*(rng.sample(some, rows) for some in (PLACES, COMPANIES)), strict=True)
    ]
    years = sorted(rng.sample(range(1900, 1990), rows))
    points = rng.sample(range(20, 900), rows)
    cities = rng.sample(["Bari", "Cork", "Split", "Graz", "Malmo", "Leeds", "Basel", "Riga", "Ghent", "Seville"], rows)
    jobs, peoples = rng.sample(WORKS, rows), rng.sample(PEOPLES, rows)
    passages, body = {}, []
    for place in range(rows):
        player, club = players[place], clubs[place]
        links = [f"/wiki/{text.replace(' ', '_')}" for text in (player, club)]
        day = f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {1800 + 7 * place + rng.randint(0, 6)}"
        passages[links[0]] = (
            f"{player} ( born {day} ) is a retired {peoples[place]} {jobs[place]} . "
            f"He won the Great {jobs[place].title()} Cup with {rng.randint(40, 99)} runners in {2001 + place} . "
            f"He attended {cities[(place + 2) % rows]} College before the war ."
        )
        passages[links[1]] = (
            f"{club} was founded in {1700 + 9 * place} by the {COMPANIES[place]} Brothers . "
            f"Located in the harbour of {peoples[place]} Bay , it is known for {rng.randint(3, 39)} wooden boats ."
        )
        texts = ((str(years[place]), ()), (player, links[:1]), (club, links[1:]), (str(points[place]), ()))
        body.append(tuple(Cell(text, tuple(link)) for text, link in (*texts, (cities[place], ()))))
    header = tuple(Cell(text) for text in ("Year", "Player", "Club ( s )", "Pts", "City"))
    return Table(f"Players_{seed}", header, tuple(body), title="Winners of the Cup", passages=passages)
