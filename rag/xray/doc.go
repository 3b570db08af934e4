// Package xray looks into a collection for what spoils retrieval: documents that are nearly the
// same, equal texts, outliers far from all others, hubs that turn up among everybody's neighbours,
// documents that no question ever finds, vectors of length zero; and it draws a map.
//
//	report, err := xray.Inspect(ctx, notes, xray.Options{Color: "lang"})
//	err = report.WriteHTML(w)
//
// A report costs one pass over the documents and one exact search for each document of a random
// sample; see [Options.Sample]. Whatever is said of a document of the sample is exact, with respect
// to all documents: its neighbours, its near-duplicates, its distance. Only if the sample is
// smaller than the collection are there documents of which nothing is said. Memory is that of the
// vectors of the sample and a few words per document. Equal seeds give equal reports.
package xray
