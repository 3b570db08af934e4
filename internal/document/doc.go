// Package document holds the stored form of a document: the msgpack array [id, metadata, text]. The
// vector is stored elsewhere, in a segment.
//
// Its inputs are documents from users, and bytes from meta.bolt and the log. Its outputs are valid
// bytes, or ErrInvalid with the field and the reason; and documents, or an error that describes the
// damage. Stored bytes come from Append only, so all stored documents are valid.
//
// It never knows where bytes are kept, what a collection is, or how documents are searched.
package document
