// Reads a database that bedload has made, from Go: no bedload, only RocksDB's C interface and the layout.
//
//	cd examples/go && go run . ../../chain 0171a0e40220…     # the key as hex: a CID's bytes, a multihash, a digest
//	cd examples/go && go run . ../../steem 00001267          # block 4711 of a block log: its number, 4 bytes big-endian
//
// It needs Go 1.19 or newer, a C compiler, and RocksDB's header and library. On Debian 12: apt-get install golang-go gcc
// librocksdb-dev. That RocksDB (7.8) reads databases of `--preset ingest-compat`.
// Programs that want a Go interface take a binding such as github.com/linxGnu/grocksdb; the layout is the same.
//
// The layout (docs/databases.md): BEDLOAD.json in the directory says which column family has the blocks and what their key
// is; the value is the block's bytes as the source has them. The database is opened for reading only.
package main

/*
#cgo LDFLAGS: -lrocksdb
#include <stdlib.h>
#include <rocksdb/c.h>
*/
import "C"

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"
)

// The part of the import's record that this program needs.
type record struct {
	Key          string `json:"key"`
	ColumnFamily string `json:"column_family"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: read DB KEY-IN-HEX")
		os.Exit(2)
	}
	if err := read(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func read(db, wanted string) error {
	key, err := hex.DecodeString(wanted)
	if err != nil || len(key) == 0 {
		return errors.New("the key is not hex")
	}
	text, err := os.ReadFile(filepath.Join(db, "BEDLOAD.json"))
	if err != nil {
		return err
	}
	var of record
	if err := json.Unmarshal(text, &of); err != nil {
		return err
	}
	block, err := get(db, of.ColumnFamily, key)
	if err != nil {
		return err
	}
	if block == nil {
		return fmt.Errorf("%s is not in %s, whose keys are: %s", wanted, db, of.Key)
	}
	fmt.Printf("%d bytes, %.32x…\n", len(block), block)
	return nil
}

// The value of a key in a column family; nil if there is none. RocksDB opens `default` in any case.
func get(db, family string, key []byte) ([]byte, error) {
	options := C.rocksdb_options_create()
	defer C.rocksdb_options_destroy(options)
	reading := C.rocksdb_readoptions_create()
	defer C.rocksdb_readoptions_destroy(reading)
	path := C.CString(db)
	defer C.free(unsafe.Pointer(path))

	names := []string{"default"}
	if family != "default" {
		names = append(names, family)
	}
	// In memory of C: cgo takes no Go memory that holds other pointers.
	count := C.size_t(len(names))
	list := (**C.char)(C.calloc(count, C.size_t(unsafe.Sizeof((*C.char)(nil)))))
	defer C.free(unsafe.Pointer(list))
	for place, name := range names {
		text := C.CString(name)
		defer C.free(unsafe.Pointer(text))
		unsafe.Slice(list, count)[place] = text
	}
	all := make([]*C.rocksdb_options_t, len(names))
	for place := range all {
		all[place] = options
	}
	handles := make([]*C.rocksdb_column_family_handle_t, len(names))
	var problem *C.char
	store := C.rocksdb_open_for_read_only_column_families(options, path, C.int(count), list, &all[0], &handles[0], 0, &problem)
	if err := failure(problem); err != nil {
		return nil, err
	}
	defer C.rocksdb_close(store)
	for _, handle := range handles {
		defer C.rocksdb_column_family_handle_destroy(handle)
	}

	var size C.size_t
	value := C.rocksdb_get_cf(store, reading, handles[len(handles)-1], (*C.char)(unsafe.Pointer(&key[0])), C.size_t(len(key)), &size, &problem)
	if err := failure(problem); err != nil {
		return nil, err
	}
	if value == nil {
		return nil, nil
	}
	defer C.rocksdb_free(unsafe.Pointer(value))
	return C.GoBytes(unsafe.Pointer(value), C.int(size)), nil
}

// Converts a message of RocksDB to an error, and frees the message with RocksDB's function.
func failure(problem *C.char) error {
	if problem == nil {
		return nil
	}
	defer C.rocksdb_free(unsafe.Pointer(problem))
	return errors.New(C.GoString(problem))
}
