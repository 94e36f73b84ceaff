"""Small word banks for the synthetic data (own text; common facts)."""

CITIES = """Paris London Rome Berlin Madrid Lisbon Vienna Prague Oslo Stockholm Helsinki Copenhagen Dublin Athens Warsaw
Budapest Cairo Tokyo Kyoto Seoul Beijing Delhi Mumbai Bangkok Hanoi Jakarta Sydney Melbourne Toronto Montreal Chicago
Boston Seattle Denver Miami Austin Dallas Houston Lima Quito Bogota Santiago Havana Nairobi Lagos Accra Tunis Geneva
Zurich Munich Hamburg Milan Naples Venice Porto Seville Lyon Nice Bergen Turku Riga Vilnius Tallinn Sofia Zagreb
Krakow Ghent Bruges Leeds Bristol York Cork Galway Utrecht Osaka Busan Perth Auckland""".split()
CAPITALS = dict(
    p.split(":")
    for p in """France:Paris;Italy:Rome;Germany:Berlin;Spain:Madrid;Portugal:Lisbon;Austria:Vienna;
Norway:Oslo;Sweden:Stockholm;Finland:Helsinki;Denmark:Copenhagen;Ireland:Dublin;Greece:Athens;Poland:Warsaw;
Hungary:Budapest;Egypt:Cairo;Japan:Tokyo;South Korea:Seoul;China:Beijing;Thailand:Bangkok;Vietnam:Hanoi;
Indonesia:Jakarta;Australia:Canberra;Canada:Ottawa;Peru:Lima;Ecuador:Quito;Colombia:Bogota;Chile:Santiago;Cuba:Havana;
Kenya:Nairobi;Ghana:Accra;Tunisia:Tunis;Switzerland:Bern;Netherlands:Amsterdam;Belgium:Brussels;Russia:Moscow;
Turkey:Ankara;Brazil:Brasilia;Argentina:Buenos Aires;Mexico:Mexico City;India:New Delhi;Iceland:Reykjavik;
Croatia:Zagreb;Latvia:Riga;Estonia:Tallinn;Lithuania:Vilnius;Bulgaria:Sofia;Romania:Bucharest;Ukraine:Kyiv;
the United Kingdom:London;the United States:Washington""".replace("\n", "").split(";")
)
COLOURS = "red blue green yellow purple orange pink brown black white gray silver golden".split()
THING_COLOUR = dict(
    p.split(":")
    for p in """the sky:blue;grass:green;a banana:yellow;snow:white;coal:black;a tomato:red;
a carrot:orange;an orange:orange;milk:white;blood:red;a lemon:yellow;the sun:yellow;a strawberry:red;a frog:green;
a pumpkin:orange;chocolate:brown;a crow:black;a swan:white;a fire truck:red;a leaf:green;the sea:blue;a lime:green;
a cherry:red;an elephant:gray;a polar bear:white""".replace("\n", "").split(";")
)
SOUNDS = dict(
    p.split(":")
    for p in """dog:woof;cat:meow;cow:moo;sheep:baa;duck:quack;pig:oink;lion:roar;owl:hoot;
bee:buzz;snake:hiss;horse:neigh;rooster:cock-a-doodle-doo;mouse:squeak;frog:ribbit;crow:caw;wolf:howl""".replace(
        "\n", ""
    ).split(";")
)
OPPOSITES = [
    p.split(":")
    for p in """hot:cold;big:small;up:down;fast:slow;happy:sad;light:dark;open:closed;early:late;
old:new;full:empty;hard:soft;high:low;left:right;loud:quiet;long:short;near:far;rich:poor;strong:weak;thick:thin;
true:false;wet:dry;day:night;in:out;on:off;clean:dirty;easy:difficult;first:last;good:bad;heavy:light;inside:outside;
start:finish;win:lose;young:old;wide:narrow;deep:shallow;sweet:sour;tall:short;brave:afraid""".replace("\n", "").split(
        ";"
    )
]
LEGS = {
    "spider": 8,
    "dog": 4,
    "cat": 4,
    "bird": 2,
    "ant": 6,
    "bee": 6,
    "horse": 4,
    "snake": 0,
    "chicken": 2,
    "fish": 0,
    "octopus": 8,
    "fly": 6,
    "human": 2,
    "cow": 4,
    "duck": 2,
}
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
GROUPS = {
    "fruits": "apple banana cherry pear plum grape orange lemon peach mango melon kiwi".split(),
    "animals": "cat dog horse cow sheep rabbit fox bear wolf lion tiger mouse".split(),
    "colours": "red blue green yellow purple orange pink brown".split(),
    "vegetables": "carrot potato onion pea bean cabbage tomato pepper leek spinach".split(),
    "birds": "robin crow owl eagle duck swan sparrow pigeon parrot".split(),
    "tools": "hammer saw drill wrench pliers screwdriver chisel".split(),
    "planets": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split(),
    "instruments": "piano guitar violin drum flute trumpet cello harp".split(),
    "sports": "football tennis swimming running cycling rowing hockey".split(),
    "languages": "English French Spanish German Italian Portuguese Japanese".split(),
}
GROUP_OF = {w: g[:-1] if g != "vegetables" else "vegetable" for g, ws in GROUPS.items() for w in ws if g != "colours"}
ANIMALS = "cat dog rabbit fox bear mouse owl hedgehog squirrel frog duck pony goat lamb kitten puppy turtle crow badger otter".split()
OBJECTS = """key book lamp ball box cup hat coat clock kite drum bell map ring shoe chair boat bag coin letter bicycle
umbrella basket blanket bottle brush button camera candle guitar mirror pencil pillow radio rope spoon stone table
ticket towel watch wallet notebook backpack ladder""".split()
PLACES = """garden kitchen attic cellar library barn forest river beach market school station harbor tower bridge
museum bakery hospital castle valley village meadow workshop office hotel cabin park island lighthouse orchard""".split()
JOBS = """teacher baker doctor farmer pilot nurse painter sailor singer writer carpenter gardener cook driver engineer
librarian musician plumber tailor waiter dentist lawyer actor""".split()
FOODS = """bread soup pizza pasta rice salad cheese cake pie pancakes noodles stew toast porridge dumplings curry
sandwiches cookies""".split()
HOBBIES = """painting swimming reading cooking fishing cycling dancing gardening chess hiking singing sewing skating
knitting photography""".split()
ADJ = """small big old new bright dark quiet loud happy sad brave clever kind lazy gentle proud shy warm cold soft
round tiny golden rusty wooden shiny dusty broken empty heavy""".split()
WEATHER = "sunny cloudy rainy windy snowy foggy stormy clear".split()
PRODUCTS = "laptop phone camera keyboard monitor printer speaker tablet headphones charger router mouse".split()
SURNAMES = """Smith Brown Jones Taylor Wilson Clark Lewis Walker Hall Young King Wright Green Baker Adams Nelson Hill
Moore Carter Mitchell Turner Parker Evans Collins Stewart Morris Rogers Reed Cook Bell Ward Cox Gray""".split()
