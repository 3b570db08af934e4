package embed

// Normalize and Temporary are what Config.Normalize and Retry use, for tests.
var (
	Normalize = func(e Embedder) Embedder { return unit{e} }
	Temporary = func(err error) bool {
		_, ok := temporary(err)
		return ok
	}
)
