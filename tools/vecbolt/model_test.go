package main

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// newHub serves the repository maker/colours, a static model, by the API of Hugging Face, and
// returns the address.
func newHub(t *testing.T) string {
	header := `{"embeddings":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}`
	weights := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	for _, x := range []float32{0, 0, 1, 0, 0, 1} {
		weights = binary.LittleEndian.AppendUint32(weights, math.Float32bits(x))
	}
	files := map[string]string{
		"README.md":         "# Colours",
		"model.safetensors": string(weights),
		"tokenizer.json": `{"model":{"type":"WordLevel","unk_token":"[UNK]","vocab":{"[UNK]":0,"red":1,"memory":2}},` +
			`"normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"Whitespace"}}`,
	}
	const commit = "0123456789abcdef0123456789abcdef01234567"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/models/maker/colours/revision/main" || r.URL.Path == "/api/models/maker/colours/revision/v1.0":
			var siblings []map[string]any
			for name, content := range files {
				id := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
				f := map[string]any{"rfilename": name, "size": len(content), "blobId": hex.EncodeToString(id[:])}
				if name == "model.safetensors" {
					sum := sha256.Sum256([]byte(content))
					f["lfs"] = map[string]any{"sha256": hex.EncodeToString(sum[:]), "size": len(content)}
				}
				siblings = append(siblings, f)
			}
			json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": siblings, "cardData": map[string]string{"license": "mit"}})
		case strings.HasPrefix(r.URL.Path, "/maker/colours/resolve/"+commit+"/"):
			content, ok := files[r.URL.Path[len("/maker/colours/resolve/"+commit+"/"):]]
			if !ok {
				http.NotFound(w, r)
				return
			}
			w.Write([]byte(content))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
