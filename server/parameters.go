package server

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/vecbolt/vecbolt/server/internal/rest"
)

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
