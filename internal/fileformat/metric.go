package fileformat

import "fmt"

// A Metric is the score by which vectors are compared. Definitions of collections store its number,
// headers of codes and graphs its Code.
type Metric uint8

// The metrics: package db defines their scores.
const (
	Cosine Metric = 0
	Dot    Metric = 1
	L2     Metric = 2
)

// String returns the name of the metric.
func (m Metric) String() string {
	switch m {
	case Cosine:
		return "cosine"
	case Dot:
		return "dot"
	case L2:
		return "l2"
	}
	return fmt.Sprintf("metric(%d)", uint8(m))
}

// Code returns the number of the metric in the headers of codes and graphs, where 0 means no
// metric.
func (m Metric) Code() uint32 { return uint32(m) + 1 }

// MetricOf is the inverse of Code; false if no metric has the code.
func MetricOf(code uint32) (Metric, bool) {
	m := Metric(code - 1)
	return m, code >= 1 && code <= L2.Code()
}
