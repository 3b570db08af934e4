package server

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// parameters reads the query string of a request. Unknown and repeated parameters are errors:
// otherwise a misspelt filter would be ignored.
func parameters(r *http.Request, names ...string) (map[string]string, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &rest.Error{Status: http.StatusBadRequest, Message: "Invalid query: " + err.Error()}
	}
	given := map[string]string{}
	for name, values := range query {
		if !slices.Contains(names, name) {
			return nil, rest.Errorf(http.StatusBadRequest, "unknown parameter %.60q", name)
		}
		if len(values) > 1 {
			return nil, rest.Errorf(http.StatusBadRequest, "parameter %q is given twice", name)
		}
		given[name] = values[0]
	}
	return given, nil
}

// onlyParameters refuses a request with parameters.
func onlyParameters(r *http.Request) error {
	_, err := parameters(r)
	return err
}

// count reads a number that is not negative. Numbers that overflow int become the largest int.
func count(name, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if errors.Is(err, strconv.ErrRange) && value[0] != '-' {
		return math.MaxInt, nil
	}
	if err != nil || n < 0 {
		return 0, rest.Errorf(http.StatusBadRequest, "Invalid '%s': must be an integer, 0 or more", name)
	}
	return n, nil
}

func escape(segment string) string { return url.PathEscape(segment) }
