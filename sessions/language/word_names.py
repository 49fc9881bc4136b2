"""Words that are also names of people and that may begin a sentence. At the beginning of a
sentence, a large letter does not show whether the word or the name is meant.

These are verbs, words for qualities and feelings, for materials, plants and times, and titles. A
word that begins no sentence without an article, such as raven, is not among them.
"""

# The names of months that people bear.
MONTHS = frozenset({"april", "august", "january", "june", "july", "may", "october"})
_WORDS = (
    # Verbs and helping verbs.
    "art badger bask bat bear beckon bill bless bolt buck cash chance charm chase cherish "
    "chip chuck clip colt comb cook crow dare dash dawn dip dodge dot drew drift duck echo "
    "fade fancy fare fell file flash fling flit frank free gale gather gaze glean grant grin grip "
    "guide hail hale happen hark haven hawk heal heed herald hope hound hunt jab jet job judge "
    "lark lash leap levy linger long love mace march mark may mend merit miss muse nab nod pace "
    "page pat peck peg pet pierce pike pine pip pitch pity play pray prosper quest rally ramble "
    "range reap reed reign remember revel ring rise roam rod rose rouse rove rue rush saw scout "
    "seek shade shear shine sing skip sling slip sly smite smoke spare spike spin spring stew "
    "still stoke storm stray strike sue swallow sway swift tag tangle tarry tear tease tell "
    "thrive tinker toll trace tread treasure trip trust tuck twist wade wake wander want ward "
    "warp waver weave welcome whisper whistle will wink wish won worth wring yield zip "
    # Qualities, feelings and other words that have no plural.
    "bliss brave bright candy charity chastity christian clemency clement constance constant "
    "courage destiny dusty earnest eternity ever faith faithful felicity fidelity fortune gay "
    "gentle gloria glory good grace gray grey grim happy hardy harmony honest honesty honor "
    "honour humble innocence innocent joy junior just justice keen kind liberty light little "
    "lovely loyal luck lucky magic meek melody mercy merry mighty misery misty modesty noble "
    "obedience old pale patience peace piety pleasant precious prudence pure rainy red rich ruddy "
    "rusty sage sandy savage serene serenity silence silent sincere solace sorrow stormy sunny "
    "sweet temperance tender trinity true truth unity valor verity victory virtue vivid west "
    "white wild windy wisdom wise woody young "
    # Materials, plants, weather and times.
    "alder amber apple ash aspen autumn basil bay birch blossom bones bracken bramble brandy "
    "briar brook cedar cherry cinder clay clover coal copper coral cotton crystal dew dill dusk "
    "dust ebony elm ember emerald fern fire flax flint flora flower forest friday frost ginger "
    "glass gold granite hawthorn hay hazel heath heather heaven hemlock henna holly honey ice "
    "indigo iris iron ivory ivy jade jasmine juniper lace laurel lavender leather lemon lilac "
    "lily linden linen maple marble midnight miles mint mist monday moon morning moss myrtle "
    "nettle night north oak ocean olive onyx opal pearl pepper poppy powder quartz rain river "
    "rock rosemary rowan rubble ruby rust rye sable saffron salt sand sapphire satin saturday "
    "scarlet shadow silk silver sky slate sleet snow spice spruce star steel stone straw sugar "
    "summer sun sunday tansy tempest thistle thorn thunder thursday thyme timber topaz tuesday "
    "velvet violet water wednesday wheat willow wind wine winter wood wool yarrow yew "
    # Titles, which stand before somebody's name.
    "abbot baron bishop brother captain chancellor colonel commander constable count countess "
    "deacon doctor duchess duke earl elder emperor father general governor inspector king lady "
    "lord madam major marshal master mother officer pastor president prince princess prior "
    "professor queen saint sergeant sheriff sir sister squire uncle aunt "
    # Words of other languages.
    "amor aube aurore avril belle blanche cruz desire dolores domingo douce dulce engel ernst "
    "esperanza fleur fiore freude friede gioia herz lang licht luce luna lune luz mai mar "
    "marguerite mond neve noel parfait paz reine rosa schnee sol soledad sommer sonne stern treu "
    "wolf вера воля заря зоря любовь мир надежда победа роза слава снежана тихон "
)
# Verbs that are far more often names, so that they count as words only where they have an object.
COMMANDS = frozenset(
    {"barb", "bob", "don", "harry", "jack", "jimmy", "josh", "lance", "nick", "rob"}
)
# All these words, in the plain spelling of `sessions.language.spelling`.
WORD_NAMES = MONTHS | frozenset(_WORDS.split())
