package embed

import "runtime"

// OfModel returns an embedder for a function in this program that computes vectors of dim
// components. It must be safe for concurrent use; texts of a batch run on all cores.
func OfModel(provider, model string, dim int, vector func(text string) []float32) Embedder {
	// Without a hash: there is no file to tell models with the same name apart.
	return &local{provider: provider, model: model, dim: dim, embed: vector, threads: runtime.GOMAXPROCS(0)}
}
