package synthetic

import "github.com/vecbolt/vecbolt/internal/fileformat"

// A Kind of query is measured by itself: a graph promises the recall that every kind gets. The
// format of graphs keeps figures of the first five.
type Kind int

// The kinds.
const (
	LikeRows         Kind = iota // rows
	MeansOfFew                   // means of three to six rows
	MeansOfMany                  // means of ten rows
	Perturbed                    // rows with noise half as long as the distance of two rows
	Sparse                       // rows with most components erased
	Midpoints                    // means of two rows in crowded places
	LonelyMidpoints              // the same in places with few rows
	MixedMidpoints               // means of a row in a crowded place and one in a place with few
	Central                      // means of thirty rows: near the mean of all
	Extrapolated                 // rows moved away from other rows
	Noisy                        // rows with noise as long as the distance of two rows
	NearCrowded                  // between a row in a crowded place and one in a place with few, nearer to the first
	NearLonely                   // the same, nearer to the second
	Nearby                       // means of rows near each other, as of a group or of examples
	InsidePopulous               // between two rows of a region that has many
	MeansPopulous                // means of five rows of such a region
	BetweenPopulous              // between two rows of such regions
	NearPopulous                 // between a row of such a region and any other, nearer to the first
	InsideLonely                 // between two rows of a region where rows are far apart
	MeansLonely                  // means of five rows of such a region
	BetweenTight                 // between two rows in places where rows are nearest to each other
	MeansDense                   // means of five rows of a dense region of many dimensions
	BetweenDense                 // between two rows of such a region
	AwayDense                    // rows of such a region moved away from others of it
	Alike                        // means of rows alike in what differs most
	Anywhere                     // all directions alike, even those that the rows hardly use; for L2 as long as a row
	WeakDirections               // rows without the directions in which rows differ most; not for Dot
	MiddleDirections             // rows without the few in which most of their length lies; not for Dot
	WithoutFirst                 // rows without their first principal components, if these are strong; only for Cosine
	Popular                      // sparse rows that keep the component in which rows are largest
	Single                       // as long as a row, along one axis; only where many components are zero
	Filled                       // rows without the components that are often zero; only where many are zero
	PartlyFilled                 // the same, but one of these components is kept
	Opposite                     // rows times -1; not for L2, which has no opposite directions
	LongMeans                    // means of a thousand rows, made as long as a row; only for L2, where lengths count
	LargeAlone                   // rows with only the few components that have most of their length; only for L2
	Kinds
)

// A source makes the i-th query of a kind.
type source func(m *maker, i int) ([]float32, error)

// A recipe says how queries of a kind are made.
type recipe struct {
	query  source
	made   func(m *maker) bool // whether there are any; nil: always
	number int                 // of queries; 0: perKind
	midway bool                // one in midwayEvery wants the most results
}

// perKind is how many queries most kinds have.
const perKind = 90

// recipes has the recipe of each kind. A search for one row finds all or nothing, so the kinds that
// find it least often have more queries.
var recipes = [Kinds]recipe{
	LikeRows:         {number: 240}, // by maker.likeRows
	MeansOfFew:       {query: means(3, 4, 6)},
	MeansOfMany:      {query: means(10)},
	Perturbed:        {query: moved(noise, 0.5)},
	Sparse:           {query: erased(anyComponent)},
	Midpoints:        {query: between(places, crowdedHalf, crowdedHalf, 0.5), number: 160, midway: true},
	LonelyMidpoints:  {query: between(places, lonelyHalf, lonelyHalf, 0.5), midway: true},
	MixedMidpoints:   {query: between(places, mostCrowded, loneliest, 0.5), number: 160, midway: true},
	Central:          {query: means(30)},
	Extrapolated:     {query: moved(away, 0.5)},
	Noisy:            {query: moved(noise, 1)},
	NearCrowded:      {query: between(places, mostCrowded, loneliest, 1./3)},
	NearLonely:       {query: between(places, loneliest, mostCrowded, 1./3)},
	Nearby:           {query: (*maker).meanNear},
	InsidePopulous:   {query: inside(populous, firstEighth, 1)},
	MeansPopulous:    {query: inside(populous, firstEighth, 4)},
	BetweenPopulous:  {query: between(populous, firstEighth, firstEighth, 0.5)},
	NearPopulous:     {query: between(populous, firstEighth, anyPlace, 1./3)},
	InsideLonely:     {query: inside(places, lastEighth, 1)},
	MeansLonely:      {query: inside(places, lastEighth, 4)},
	BetweenTight:     {query: between(places, firstEighth, firstEighth, 0.5)},
	MeansDense:       {query: insideDense(4, 0.8), made: isDense},
	BetweenDense:     {query: insideDense(1, 0.5), made: isDense},
	AwayDense:        {query: insideDense(1, -0.5), made: isDense},
	Alike:            {query: (*maker).meanAlike},
	Anywhere:         {query: (*maker).direction},
	WeakDirections:   {query: withoutAllStrong, made: hasStrong},
	MiddleDirections: {query: withoutMiddle, made: hasMiddle},
	WithoutFirst:     {query: (*maker).lessFirst, made: hasFirst},
	Popular:          {query: erased(largest)},
	Single:           {query: (*maker).axis, made: isZeroed},
	Filled:           {query: numbers(0), made: hasNumbers},
	PartlyFilled:     {query: numbers(1), made: hasNumbers},
	Opposite:         {query: (*maker).opposite, made: func(m *maker) bool { return !isL2(m) }},
	LongMeans:        {query: (*maker).longMean, made: isL2, midway: true},
	LargeAlone:       {query: (*maker).largeOf, made: hasLarge},
}

func isL2(m *maker) bool       { return m.Metric == fileformat.L2 }
func isDense(m *maker) bool    { return m.dense }
func isZeroed(m *maker) bool   { return m.zeroed }
func hasNumbers(m *maker) bool { return (m.zeroed || m.tagged) && m.numbers >= leastFilled }
func hasStrong(m *maker) bool  { return m.strong != nil }
func hasMiddle(m *maker) bool  { return m.middle < len(m.strong) }
func hasFirst(m *maker) bool   { return m.components != nil }
func hasLarge(m *maker) bool   { return m.large != nil }

// Queries returns how many queries of a kind are made, unless Rows.Most is less.
func (k Kind) Queries() int {
	if n := recipes[k].number; n > 0 {
		return n
	}
	return perKind
}

// Which queries of a kind want many results. Numbers are prime to the cycles of the kinds.
const (
	middleEvery = 5 // two queries in five
	deepEvery   = 7
	midwayEvery = 5 // where few queries find little: 13 showed none of them
)

// depth returns which of Rows.Results the i-th query of a kind wants.
func (k Kind) depth(i int) int {
	every := deepEvery
	if recipes[k].midway {
		every = midwayEvery
	}
	switch {
	case i%every == 0:
		return 2
	case i%middleEvery%2 == 1:
		return 1
	}
	return 0
}
