// Package document holds the stored form of a document: the msgpack array [id, metadata, text]. The
// vector is stored elsewhere, in a segment.
//
// It is given documents from users, and bytes from meta.bolt and the log. It gives back valid
// bytes, or ErrInvalid with the field and the reason; and documents, or an error that says what is
// wrong with the bytes. Append is the only way to stored bytes, so that whatever is stored is
// valid.
//
// It never knows where bytes are kept, what a collection is, or how documents are searched.
package document
