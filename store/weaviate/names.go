package weaviate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// classPrefix begins the names of the classes of this package. Weaviate requires a capital first
// letter.
const classPrefix = "Vecbolt_"

// className returns the class of a collection: the prefix, then lower-case letters and digits as
// they are, and every other byte as an underscore and two hexadecimal digits. Capitals are escaped
// too, because classes whose names differ by case alone share a directory. Names that are too long
// are hashed. The description of the class contains the original name.
func className(collection string) string {
	var b strings.Builder
	b.WriteString(classPrefix)
	for i := range len(collection) {
		if c := collection[i]; c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if b.Len() > 200 {
		sum := sha256.Sum256([]byte(collection))
		return classPrefix + "_sha256_" + hex.EncodeToString(sum[:])
	}
	return b.String()
}

// namespace is the namespace of the documents' UUIDs.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/vecbolt/vecbolt/store/weaviate"))

// objectID returns the id of the object of a document.
func objectID(id string) string { return uuid.NewSHA1(namespace, []byte(id)).String() }
