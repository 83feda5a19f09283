package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
)

// packed is a file in an archive: a copy of a file, or the given content.
type packed struct {
	name    string
	mode    int64
	from    string // a path; empty if content is set
	content []byte
}

// tarball writes a compressed archive to the folder of the release. Owner and time of the files do
// not depend on this machine.
func (r release) tarball(name string, files []packed) error {
	var buffer bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, file := range files {
		content := file.content
		if file.from != "" {
			if content, err = os.ReadFile(file.from); err != nil {
				return err
			}
		}
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(content)), ModTime: r.changed, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	return r.write(name, buffer.Bytes())
}

func (r release) write(name string, content []byte) error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}
