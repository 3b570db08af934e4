package text

import (
	"maps"
	"slices"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/porter"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"
)

// A language holds the analysis of one language. Words are case-folded.
type language struct {
	stem  func(*snowballstem.Env) bool
	bare  bool // the stemmer knows no accents, and would not strip the ending of a word with accents
	elide string
	stop  string
}

// Languages returns the names that [New] accepts, sorted: eighteen languages, "none", and
// "porter", which is English with the stemmer of Porter (1980) instead of its successor.
func Languages() []string { return slices.Sorted(maps.Keys(languages)) }

// Stop words are function words, which say little about the subject of a text. A query drops stop
// words that stand alone, but the index contains them, so a short list is enough.
var languages = map[string]language{
	"none":    {},
	"arabic":  {stem: arabic.Stem, stop: `في من على إلى عن مع هذا هذه ذلك التي الذي ما لا أن إن كان كانت هو هي و أو ثم قد لم لن بين كل بعد قبل عند`},
	"danish":  {stem: danish.Stem, stop: `og i jeg det at en den til er som på de med han af for ikke der var mig sig men et har om vi min havde ham hun nu over da fra du ud sin dem os op man hans hvor eller hvad skal selv her alle vil blev kunne ind når være dog noget ville jo deres efter ned skulle denne end dette mit også under have dig anden hende mine alt meget sit sine vor mod disse hvis din nogle hos blive mange ad bliver hendes været thi jer sådan`},
	"dutch":   {stem: dutch.Stem, stop: `de en van ik te dat die in een hij het niet zijn is was op aan met als voor had er maar om hem dan zou of wat mijn men dit zo door over ze zich bij ook tot je mij uit der daar haar naar heb hoe heeft hebben deze u want nog zal me zij nu ge geen omdat iets worden toch al waren veel meer doen toen moet ben zonder kan hun dus alles onder ja eens hier wie werd altijd doch wordt wezen kunnen ons zelf tegen na reeds wil kon niets uw iemand geweest andere`},
	"english": {stem: english.Stem, bare: true, stop: englishStop},
	"finnish": {stem: finnish.Stem, stop: `olla olen olet on olemme olette ovat oli olivat en et ei emme ette eivät minä sinä hän me te he tämä tuo se nämä nuo ne kuka mikä mitä joka jotka että ja jos koska kuin mutta niin sekä sillä tai vaan vai vaikka kanssa mukaan noin poikki yli kun nyt itse myös`},
	"french": {stem: french.Stem, elide: `l d j m t s n c qu jusqu lorsqu puisqu quoiqu`,
		stop: `au aux avec ce ces dans de des du elle en et eux il ils je la le les leur leurs lui ma mais me même mes moi mon ne nos notre nous on ou où par pas pour qu que qui sa se ses son sur ta te tes toi ton tu un une vos votre vous c d j l à m n s t y été étée étées étés étant suis es est sommes êtes sont sera seront serait étais était étaient fut furent soit soient ai as avons avez ont aura auront avais avait avaient eu eut quel quelle quels quelles comme si sans plus ceci cela ça`},
	"german": {stem: german.Stem, stop: `aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei bin bis bist da damit dann das dass dasselbe dazu dein deine dem den denn der des desselben dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines einig einige er es etwas euch euer für gegen gewesen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in indem ins ist jede jedem jeden jeder jedes jene jetzt kann kein keine können könnte machen man manche mein meine mich mir mit muss musste nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner sich sie sind so solche soll sollte sondern sonst über um und uns unser unter viel vom von vor während war waren warst was weg weil weiter welche wenn wer werde werden wie wieder will wir wird wirst wo wollen würde würden zu zum zur zwar zwischen`},
	"hungarian": {stem: hungarian.Stem,
		stop: `a az egy és is hogy nem de ha ez azt ezt meg már csak mint vagy van volt voltak lesz el még én te ő mi ti ők ki be fel le mert sem aki ami amely minden akkor amikor így úgy kell lehet között után alatt ezért azonban pedig ne össze`},
	"irish":   {stem: irish.Stem, stop: `a ach ag agus an ar as ba bhí cé chun dá de do é faoi go gur i iad idir in is le leis mar mé mo na nach ní níor nó ó roimh sa san sé sí siad sin sna seo tá trí tú um`},
	"italian": {stem: italian.Stem, elide: `l un d c s m t v n all dell dall nell sull coll quest quell`, stop: `ad al allo ai agli alla alle con col da dal dallo dai dagli dalla dalle di del dello dei degli della delle in nel nello nei negli nella nelle su sul sullo sui sugli sulla sulle per tra contro io tu lui lei noi voi loro mio mia miei mie tuo suo sua suoi sue nostro vostro mi ti ci vi lo la li le gli ne il un uno una ma ed se perché anche come dov dove che chi cui non più quale quanto quella quelle quelli quello questo questa questi queste si tutto tutti a c e i l o ho hai ha abbiamo avete hanno aveva era erano è sono sei siamo essere fu furono sia stato`},
	"norwegian": {stem: norwegian.Stem,
		stop: `og i jeg det at en et den til er som på de med han av ikke der så var meg seg men ett har om vi min mitt ha hadde hun nå over da ved fra du ut sin dem oss opp man kan hans hvor eller hva skal selv her alle vil bli ble blitt kunne inn når være kom noen noe ville dere deres kun ja etter ned skulle denne for deg si sine mot å meget hvorfor dette disse uten hvordan ingen din ditt blir samme hvilken hvilke hvem være bare enn fordi før mange også slik vært begge siden`},
	"porter": {stem: porter.Stem, stop: englishStop},
	"portuguese": {stem: portuguese.Stem,
		stop: `de a o que e do da em um para com não uma os no se na por mais as dos como mas ao ele das à seu sua ou quando muito nos já eu também só pelo pela até isso ela entre depois sem mesmo aos seus quem nas me esse eles você essa num nem suas meu às minha numa pelos elas qual nós lhe deles essas esses pelas este dele tu te vocês foi ser é são está estão era eram tem têm ter há isto aquele aquela aquilo`},
	"romanian": {stem: romanian.Stem, stop: `a acea aceasta această acest aceste acestea acestor acestui acela ai al ale alt am ar are as asta astfel au avea că ca care cât ce cea cel cele celor cei chiar ci cine cu cum da dacă dar de deci din doar după ea ei el ele era este eu fără fi fie fost iar îi îl în într între la le li lor lui mai mi ne nici noi nu o ori pe pentru prin sa să sau se si și sunt suntem te toate tot tu un una unde unei unor unui va voi vor vom`},
	"russian":  {stem: russian.Stem, stop: `и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было вот от меня еще нет о из ему теперь когда даже ну вдруг ли если уже или ни быть был него до вас нибудь опять уж вам ведь там потом себя ничего ей может они тут где есть надо ней для мы тебя их чем была сам чтоб без будто чего раз тоже себе под будет ж тогда кто этот того потому этого какой совсем ним здесь этом один почти мой тем чтобы нее были куда зачем всех никогда можно при об другой хоть после над больше тот через эти нас про них какая много разве три эту моя свою этой перед иногда лучше чуть том нельзя такой им более всегда конечно всю между это`},
	"spanish":  {stem: spanish.Stem, stop: `de la que el en y a los del se las por un para con no una su al lo como más pero sus le ya o este sí porque esta entre cuando muy sin sobre también me hasta hay donde quien desde todo nos durante todos uno les ni contra otros ese eso ante ellos e esto mí antes algunos qué unos yo otro otras otra él tanto esa estos mucho quienes nada muchos cual poco ella estar estas algunas algo nosotros mi mis tú te ti tu tus ellas es son fue era eran ser está están ha han había sido soy`},
	"swedish":  {stem: swedish.Stem, stop: `och det att i en jag hon som han på den med var sig för så till är men ett om hade de av icke mig du henne då sin nu har inte hans honom skulle hennes där min man ej vid kunde något från ut när efter upp vi dem vara vad över än dig kan sina här ha mot alla under någon eller allt mycket sedan ju denna själv detta åt utan varit hur ingen mitt ni bli blev oss din dessa några deras blir mina samma vilken er sådan vår blivit dess inom mellan sådant varför varje vilka ditt vem vilket`},
	"tamil":    {stem: tamil.Stem, stop: `ஒரு என்று மற்றும் இந்த இது என்ற கொண்டு என்பது பல ஆகும் அல்லது அவர் நான் உள்ள அந்த இவர் என முதல் என்ன இருந்து சில என் போன்ற வேண்டும் வந்து இதன் அது அவன் தான் பலரும்`},
	"turkish":  {stem: turkish.Stem, stop: `acaba ama ancak az bana bazı belki ben beni benim bile bir biri birkaç biz bize bizi bu buna bunda bundan bunu bunun çok çünkü da daha de defa diye eğer en gibi hem hep hepsi her hiç için ile ise kez ki kim mı mi mu mü nasıl ne neden nerede niye o olan olarak oldu olduğu onlar onu onun sanki siz şey şu tüm ve veya ya yani`},
}

const englishStop = `a about above after again against all also am an and any are aren't as at be because been before being below
between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few for from further
had hadn't has hasn't have haven't having he her here hers herself him himself his how i i'm if in into is isn't it it's its
itself let's may me might more most must my myself no nor not of off on once only or other our ours ourselves out over own same
shall shan't she should shouldn't so some such than that that's the their theirs them themselves then there there's these they
they're this those through to too under until up upon us very was wasn't we were weren't what what's when where which while who
whom whose why will with won't would wouldn't you you're your yours yourself yourselves`
