"""Words that say nothing about the matter of a text, because nearly every text of their language
has them. The same words show the language of a text."""

# The names of the languages are those of `snowballstemmer`.
ENGLISH = "english"
_LISTS = {
    ENGLISH: (
        "about above after again against all also am an and any are as at away back be because "
        "been before behind being below between both but by can could did do does doing down "
        "during each even ever every few for from further get go going got had has have having "
        "he her here hers herself him himself his how i i'd i'll i'm i've if in into is it it's "
        "its itself just know like made make me more most much my myself no nor not now of off "
        "oh okay on once one only or other our ours out over own said same say says see she "
        "should so some something still such than that that's the their theirs them themselves "
        "then there these they they're thing things this those though through to too two under "
        "until up upon us very was we were what when where which while who whom why will with "
        "would yeah yes you you're your yours yourself well right don't can't won't didn't "
        "isn't wasn't doesn't couldn't wouldn't there's let's he's she's what's "
    ),
    "german": (
        "aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin "
        "bis bist da damit dann das dass dein deine dem den denn der des dessen dich die dies "
        "diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines "
        "er es etwas euch euer für gegen habe haben hat hatte hatten hier hin hinter ich ihm ihn "
        "ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jetzt kann kein "
        "keine keinen können könnte man mehr mein meine meinem meinen meiner mich mir mit muss "
        "nach nein nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen "
        "seiner sich sie sind so soll sondern über um und uns unser unsere unter vom von vor wann "
        "war waren warum was weil wem wen wenn wer werde werden wie wieder will wir wird wirst wo "
        "wurde wurden zu zum zur zwischen"
    ),
    "french": (
        "ai alors après as au aucun aussi autre aux avait avant avec avoir avons bien ce cela ces "
        "cet cette ceux chez comme comment dans de des deux donc dont du elle elles en encore "
        "entre est et étaient était été être eu fait il ils ici je la le les leur leurs lui là ma "
        "mais me mes moi moins mon même ne ni nos notre nous on ont ou où par pas peu peut plus "
        "pour pourquoi quand que quel quelle quelque qui quoi sa sans se sera ses si son sont sous "
        "suis sur ta te tes toi ton tous tout toute toutes très tu un une vers vos votre vous y"
    ),
    "spanish": (
        "al algo alguien antes aquí así aunque bajo bien cada casi como con contra cual cuando de "
        "del desde donde dónde dos durante el él ella ellas ellos en entonces entre era eran eres "
        "es esa ese eso esta está están estaba este esto estos fue fueron ha había han hasta hay "
        "la las le les lo los más me mi mis mucho muy nada ni no nos nosotros o otra otro para "
        "pero poco por porque qué que quién quien se ser si sí sin sobre son su sus también te "
        "tiene todo todos tu tus un una uno unos usted y ya yo"
    ),
    "italian": (
        "ad agli ai al alla alle allo anche ancora avere aveva c'è che chi ci come con contro cosa "
        "così cui da dagli dai dal dalla dalle dei degli del della delle dello dentro di dopo dove "
        "due e è ed era erano essere fra fu gli ha hai hanno ho i il in io la le lei li lo loro "
        "lui ma me mi mia mio molto ne nei nel nella nelle nello noi non nostro o ogni per perché "
        "però più poi quale quando quella quello questa queste questi questo qui se sei senza si "
        "sia sono sopra sotto sta su sua sue sugli sul sulla suo te ti tra tu tua tuo tutti tutto "
        "un una uno vi voi"
    ),
    "portuguese": (
        "ainda ao aos aquela aquele as às até cada com como contra da das de dela dele deles "
        "depois do dos e é ela elas ele eles em entre era eram essa esse está estão estava este eu "
        "foi foram há isso isto já lhe mais mas me mesmo meu meus minha muito na nada não nas nem "
        "no nos nós nossa nosso num numa o onde os ou para pela pelas pelo pelos por porque quando "
        "que quem se sem ser seu seus só sobre sua suas também te tem tinha tu tudo um uma você "
        "vocês"
    ),
    "dutch": (
        "aan achter al alles als altijd andere ben bij daar dan dat de deze die dit doch door "
        "dus een eens en er ge geen had hadden heb hebben heeft hem het hier hij hoe hun ik in "
        "is ja je jij jou kan kon kunnen maar me meer men met mij mijn moet na naar niet niets "
        "nog nu of om onder ons onze ook op over reeds te tegen toch toen tot u uit uw van veel "
        "voor waar waarom want waren was wat we weer wel werd wie wij wil wordt zal ze zich zij "
        "zijn zo zonder zou"
    ),
}
STOP_WORDS = {language: frozenset(words.split()) for language, words in _LISTS.items()}
