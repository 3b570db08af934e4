package fileformat

import "fmt"

// A Metric is the score by which vectors are compared. The numbers are stored on disk.
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
