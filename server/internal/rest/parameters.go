package rest

import (
	"net/http"
	"net/url"
	"slices"
)

// Parameters reads the query string of a request. Unknown and repeated parameters are errors:
// otherwise a misspelt filter would be ignored.
func Parameters(r *http.Request, names ...string) (map[string]string, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, Message: "Invalid query: " + err.Error()}
	}
	given := map[string]string{}
	for name, values := range query {
		if !slices.Contains(names, name) {
			return nil, Errorf(http.StatusBadRequest, "unknown parameter %.60q", name)
		}
		if len(values) > 1 {
			return nil, Errorf(http.StatusBadRequest, "parameter %q is given twice", name)
		}
		given[name] = values[0]
	}
	return given, nil
}

// NoParameters refuses a request with parameters.
func NoParameters(r *http.Request) error {
	_, err := Parameters(r)
	return err
}
