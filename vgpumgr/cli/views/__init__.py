"""How values are shown: items for programs, words, tables and bars for people."""
