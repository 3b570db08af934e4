package xray

import "github.com/vecbolt/vecbolt/db"

// A Report is the result of Inspect. Options.List limits lists; counts are complete.
type Report struct {
	Collection string    `json:"collection"`
	Metric     db.Metric `json:"metric"`
	Dim        int       `json:"dim"`
	Documents  int       `json:"documents"`
	Vectors    int       `json:"vectors"` // documents with a vector
	Zero       int       `json:"zero"`    // vectors of length zero
	Sampled    int       `json:"sampled"` // documents in the sample, each searched for
	K          int       `json:"k"`
	Near       float64   `json:"near"`

	Norms   *Distribution `json:"norms"`   // lengths of all vectors
	Nearest *Distribution `json:"nearest"` // score of the nearest neighbour of each document of the sample
	Random  *Distribution `json:"random"`  // scores of random pairs of the sample

	SameText    SameText     `json:"same_text"`
	Duplicates  Duplicates   `json:"duplicates"`
	Outliers    []Outlier    `json:"outliers"` // the farthest first
	Hubs        Hubs         `json:"hubs"`
	Unretrieved *Unretrieved `json:"unretrieved,omitempty"` // nil without a log
	Map         Map          `json:"map"`

	// Texts hold the beginning of the text of each document that the report names.
	Texts map[string]string `json:"texts"`
}

// SameText reports documents that share their text with another document, except for white space;
// with or without a vector. Documents without a text are not counted.
type SameText struct {
	Documents int     `json:"documents"`
	Groups    []Group `json:"groups"` // the largest first
}

// Duplicates reports documents that have a near-duplicate. Under a metric other than Cosine, only
// the K nearest neighbours of a document by that metric are compared.
type Duplicates struct {
	Documents int     `json:"documents"`
	Pairs     int     `json:"pairs"`               // each with at least one document of the sample
	Truncated int     `json:"truncated,omitempty"` // documents of the sample with too many near-duplicates to count all
	Groups    []Group `json:"groups"`              // documents connected by pairs, the largest group first
	Closest   []Pair  `json:"closest"`
}

// A Group is a set of near-duplicates.
type Group struct {
	Size int      `json:"size"`
	IDs  []string `json:"ids"` // the first few, in order
}

// A Pair is two documents and the cosine of their vectors.
type Pair struct {
	A      string  `json:"a"`
	B      string  `json:"b"`
	Cosine float64 `json:"cosine"`
}

// An Outlier is a document far from its neighbours.
type Outlier struct {
	ID       string  `json:"id"`
	Distance float64 `json:"distance"` // mean of 1 - cosine to its K neighbours, or of the Euclidean distance under L2
}

// Hubs reports how often documents are among the K neighbours of the sample (Radovanović,
// Nanopoulos, Ivanović 2010).
type Hubs struct {
	Top   []Hub `json:"top"`
	Never int   `json:"never"` // documents that are in no neighbourhood
	// of the occurrences of all documents: far above 1, hubs displace other neighbours
	Skewness    float64       `json:"skewness"`
	Occurrences *Distribution `json:"occurrences"`
}

// A Hub is a document with the number of neighbourhoods that contain it.
type Hub struct {
	ID    string `json:"id"`
	Count int    `json:"count"`
}

// Unretrieved reports the documents that no query of a log found.
type Unretrieved struct {
	Queries   int           `json:"queries"`
	Documents int           `json:"documents"`
	IDs       []string      `json:"ids"`
	Best      *Distribution `json:"best"` // score of the best document of each query
}

// A Map shows documents in the two directions in which their vectors vary most (PCA).
type Map struct {
	Field     string     `json:"field,omitempty"` // the field that gives the colours
	Numeric   bool       `json:"numeric,omitempty"`
	Labels    []string   `json:"labels,omitempty"` // values or value ranges of the field
	Explained [2]float64 `json:"explained"`        // share of the variance along x and y
	Points    []Point    `json:"points"`
}

// A Point is a document on the map.
type Point struct {
	ID    string  `json:"id"`
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	Label int     `json:"label"` // index into Map.Labels; 0 without a field
}
