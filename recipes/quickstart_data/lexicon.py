"""Words the quickstart grammar draws from: parts of invented names, class words of names, and number ranges."""


def words(text: str) -> tuple[str, ...]:
    """Words separated by blanks."""
    return tuple(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """Phrases separated by bars."""
    return tuple(text.split("|"))


TOWN_ONSETS = words("B Br C Cal D Dr F Fen G Gr H Hal J K Kel L M Mar N Or P Pel R S Sel St T Tar Th V Vel W Wes Y Z")
TOWN_MIDDLES = words("a ad al am an ar as e ed el em en er i il im in ir o ol om on or ov u ul un ur y")
TOWN_ENDINGS = words(
    "abeck ald amere anda ardo ask avik ber bost brook bury by dale den dov elle eno esk etto ford gard goff grave "
    "ham holt ick ingen ino ison kel land ley lin low mark mond more nor oux ovic quist ridge rim row sand shaw sky "
    "stad stein stow ters thorn tin ton tova vale vanen veld vik ward wick wood yan zano"
)

FEMALE_NAMES = words(
    "Agnes Alma Amira Asha Bettina Calla Celeste Dagny Delphine Edda Elspeth Fatou Freya Greta Hanna Ilse Imani Ines "
    "Jorunn Katya Leila Lucia Maren Mei Mirela Nadia Noor Odile Oona Petra Priya Rosa Runa Sanna Saoirse Tamsin Thea "
    "Una Vera Wanda Yara Zenobia Zora"
)
MALE_NAMES = words(
    "Abel Anders Aziz Barnaby Bela Casper Cyril Dario Dmitri Eamon Emeka Felix Florian Gideon Goran Hamish Hugo Ivo "
    "Jasper Joao Kofi Lars Leopold Luca Magnus Mateo Milo Nils Omar Otto Pavel Quentin Rafael Rohan Rufus Silas "
    "Stefan Tariq Tomas Umar Viggo Wilfred Yusuf Zeno"
)

TITLES = {
    "he": ("Mr.", "Mr.", "Mr.", "Dr.", "Prof.", "Captain", "Judge", "Sir", "Father"),
    "she": ("Mrs.", "Ms.", "Ms.", "Dr.", "Prof.", "Captain", "Judge", "Dame", "Sister"),
}
PERSON_QUALIFIERS = ("young", "old", "poor", "clever", "little")
PLACE_QUALIFIERS = ("northern", "southern", "eastern", "western", "central", "downtown", "rural")
PERSON_SUFFIXES = ("Jr.", "Sr.", "PhD", "MD", "Esq.")
COMPANY_SUFFIXES = ("Inc.", "Ltd.", "Corp.", "plc")

# Class words after a name (the modifier construction) and words before it, by slot.
MODIFIER_NOUNS = {
    "GOV": ("government", "administration", "cabinet"),
    "TEAM": ("council", "police", "team", "delegation", "brigade"),
    "GROUP": ("group", "company", "consortium"),
    "AREA": ("province", "county", "district", "region"),
    "SERIES": ("trilogy", "series", "saga"),
}
MODIFIER_PRELUDES = {
    "GOV": ("the new", "the outgoing", "the second", "the present"),
    "TEAM": ("", "", "the local"),
    "GROUP": ("", "the whole"),
    "AREA": ("", "the whole"),
    "SERIES": ("the whole", "the popular"),
}

COMPANY_WORDS = words(
    "Foods Systems Partners Motors Software Records Press Airlines Textiles Energy Pharma Logistics Shipping Cement"
)
INSTITUTE_WORDS = words("Institute Academy Orchestra Society Trust Times Gazette Union Laboratory Agency Theatre")
TOWN_BODIES = phrases(
    "Town Council|Chamber of Commerce|Rowing Club|City Library|Harbour Board|United|Athletic|Choral Society|"
    "Fire Department|General Hospital|Chess Club|School Board"
)
BODIES_OF = phrases("University|Bank|Diocese|Conservatory|Technical College")
FRIENDS_OF = phrases("Friends|Society for the Study|Association of Readers|Guardians")
PERSON_BODIES = phrases("Foundation|Family Trust|Scholarship Fund|Dance Company")

PLACE_HEADS = words("Mount Lake Port Cape Upper Saint New Fort")
PLACE_TAILS = words("Street Bay Square Harbour Station Beach Lane")
PLACE_TAILS_WITH_ARTICLE = words("Valley River Islands Hills Canal Peninsula Bridge Forest Gulf")

TITLE_ADJECTIVES = words(
    "Glass Hollow Crooked Silent Borrowed Copper Distant Ninth Paper Salt Unfinished Velvet Winter Blind Patient "
    "Second Burning Late"
)
TITLE_NOUNS = words(
    "Orchard Lighthouse Cartographer Harvest Staircase Kingdom Daughter Machine Garden Mirror Season Ferryman "
    "Language Apartment Migration Clockmaker Alphabet Widow Museum Tide"
)
TITLE_GERUNDS = phrases("Counting|Leaving|Painting|Forgetting|Burying|Teaching|Hunting|Mending|Waiting for")
TITLE_PLURALS = words("Herons Strangers Bridges Wolves Ghosts Apples Sisters Engines Islands Snow Sundays Rivers")
TITLE_OF_PERSON = phrases("Letters to|Conversations with|Waiting for|Forgiving|In Search of|Portrait of")
TITLE_OF_PLACE = phrases("Songs of|Return to|Leaving|Night Train to|Winter in|Postcards from|Last Bus to")
TITLE_OF_EVENT = phrases("History of|Remembering|Echoes of|Diary of")
TITLE_FORMS = words("Variations Chronicles Diaries Suite Papers Sonata Monologues")

TOWN_EVENTS = phrases("Marathon|Film Festival|Book Fair|Air Show|Jazz Week|Biennale|Horse Show|Open|Peace Conference")
PAST_EVENTS = words("Battle Siege Massacre Rebellion Congress")
CLUB_EVENTS = words("Regatta Cup Gala Invitational Masters")
PERSON_EVENTS = phrases("Memorial Lecture|Memorial Race|Prize Ceremony|Centenary")
THEME_EVENTS = phrases("Lantern Festival|Games|Summit|Expo|Uprising|Olympiad")
STORM_HEADS = ("Storm", "Hurricane", "Typhoon")

# name -> (lowest, highest, pattern); the pattern sees the number as n
NUMBERS = {
    "few": (2, 9, "{n}"),
    "tens": (11, 95, "{n}"),
    "hundreds": (105, 990, "{n}"),
    "thousands": (1100, 98000, "{n:,}"),
    "year": (1921, 2024, "{n}"),
    "old": (1688, 1920, "{n}"),
    "day": (1, 28, "{n}"),
    "age": (19, 91, "{n}"),
    "hour": (1, 12, "{n}:30"),
    "decimal": (2, 48, "{n}.5"),
}
