package fileformat

import (
	"fmt"
	"strings"
)

// A Metric is the score by which vectors are compared; package db defines the scores and shows it
// to users. Definitions of collections store its number, headers of codes and graphs its Code.
type Metric uint8

// The metrics.
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

// ParseMetric reads the name of a metric, in upper or lower case.
func ParseMetric(s string) (Metric, error) {
	for m := Cosine; m <= L2; m++ {
		if strings.EqualFold(s, m.String()) {
			return m, nil
		}
	}
	return 0, fmt.Errorf("metric %q: want cosine, dot or l2", s)
}

// MarshalText implements encoding.TextMarshaler.
func (m Metric) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Metric) UnmarshalText(b []byte) (err error) {
	*m, err = ParseMetric(string(b))
	return err
}

// Code returns the number of the metric in the headers of codes and graphs, where 0 means no
// metric.
func (m Metric) Code() uint32 { return uint32(m) + 1 }

// MetricOf is the inverse of Code; false if no metric has the code.
func MetricOf(code uint32) (Metric, bool) {
	m := Metric(code - 1)
	return m, code >= 1 && code <= L2.Code()
}
