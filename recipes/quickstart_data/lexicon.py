"""Words the quickstart grammar draws from: parts of invented names, class words of names, and number ranges."""

TOWN_ONSETS = "B Br C Cal D Dr F Fen G Gr H Hal J K Kel L M Mar N Or P Pel R S Sel St T Tar Th V Vel W Wes Y Z".split()
TOWN_MIDDLES = "a ad al am an ar as e ed el em en er i il im in ir o ol om on or ov u ul un ur y".split()
TOWN_ENDINGS = (
    "abeck ald amere anda ardo ask avik ber bost brook bury by dale den dov elle eno esk etto ford gard goff grave "
    "ham holt ick ingen ino ison kel land ley lin low mark mond more nor oux ovic quist ridge rim row sand shaw sky "
    "stad stein stow ters thorn tin ton tova vale vanen veld vik ward wick wood yan zano"
).split()

FEMALE_NAMES = (
    "Agnes Alma Amira Asha Bettina Calla Celeste Dagny Delphine Edda Elspeth Fatou Freya Greta Hanna Ilse Imani Ines "
    "Jorunn Katya Leila Lucia Maren Mei Mirela Nadia Noor Odile Oona Petra Priya Rosa Runa Sanna Saoirse Tamsin Thea "
    "Una Vera Wanda Yara Zenobia Zora"
).split()
MALE_NAMES = (
    "Abel Anders Aziz Barnaby Bela Casper Cyril Dario Dmitri Eamon Emeka Felix Florian Gideon Goran Hamish Hugo Ivo "
    "Jasper Joao Kofi Lars Leopold Luca Magnus Mateo Milo Nils Omar Otto Pavel Quentin Rafael Rohan Rufus Silas Stefan "
    "Tariq Tomas Umar Viggo Wilfred Yusuf Zeno"
).split()

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

COMPANY_WORDS = (
    "Foods Systems Partners Motors Software Records Press Airlines Textiles Energy Pharma Logistics Shipping Cement"
).split()
INSTITUTE_WORDS = "Institute|Academy|Orchestra|Society|Trust|Times|Gazette|Union|Laboratory|Agency|Theatre".split("|")
TOWN_BODIES = (
    "Town Council|Chamber of Commerce|Rowing Club|City Library|Harbour Board|United|Athletic|Choral Society|"
    "Fire Department|General Hospital|Chess Club|School Board"
).split("|")
BODIES_OF = "University|Bank|Diocese|Conservatory|Technical College".split("|")
FRIENDS_OF = "Friends|Society for the Study|Association of Readers|Guardians".split("|")
PERSON_BODIES = "Foundation|Family Trust|Scholarship Fund|Dance Company".split("|")

PLACE_HEADS = "Mount|Lake|Port|Cape|Upper|Saint|New|Fort".split("|")
PLACE_TAILS = "Street|Bay|Square|Harbour|Station|Beach|Lane".split("|")
PLACE_TAILS_WITH_ARTICLE = "Valley|River|Islands|Hills|Canal|Peninsula|Bridge|Forest|Gulf".split("|")

TITLE_ADJECTIVES = (
    "Glass|Hollow|Crooked|Silent|Borrowed|Copper|Distant|Ninth|Paper|Salt|Unfinished|Velvet|Winter|Blind|Patient|"
    "Second|Burning|Late"
).split("|")
TITLE_NOUNS = (
    "Orchard|Lighthouse|Cartographer|Harvest|Staircase|Kingdom|Daughter|Machine|Garden|Mirror|Season|Ferryman|Language|"
    "Apartment|Migration|Clockmaker|Alphabet|Widow|Museum|Tide"
).split("|")
TITLE_GERUNDS = "Counting|Leaving|Painting|Forgetting|Burying|Teaching|Hunting|Mending|Waiting for".split("|")
TITLE_PLURALS = "Herons|Strangers|Bridges|Wolves|Ghosts|Apples|Sisters|Engines|Islands|Snow|Sundays|Rivers".split("|")
TITLE_OF_PERSON = "Letters to|Conversations with|Waiting for|Forgiving|In Search of|Portrait of".split("|")
TITLE_OF_PLACE = "Songs of|Return to|Leaving|Night Train to|Winter in|Postcards from|Last Bus to".split("|")
TITLE_OF_EVENT = "History of|Remembering|Echoes of|Diary of".split("|")
TITLE_FORMS = "Variations|Chronicles|Diaries|Suite|Papers|Sonata|Monologues".split("|")

TOWN_EVENTS = "Marathon|Film Festival|Book Fair|Air Show|Jazz Week|Biennale|Horse Show|Open|Peace Conference".split("|")
PAST_EVENTS = "Battle|Siege|Massacre|Rebellion|Congress".split("|")
CLUB_EVENTS = "Regatta|Cup|Gala|Invitational|Masters".split("|")
PERSON_EVENTS = "Memorial Lecture|Memorial Race|Prize Ceremony|Centenary".split("|")
THEME_EVENTS = "Lantern Festival|Games|Summit|Expo|Uprising|Olympiad".split("|")
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
