# Makes the files of rag/load/testdata:
#   pip install python-pptx==1.0.2 openpyxl==3.1.5 xlsxwriter==3.3.1 odfpy==1.4.1 ebooklib==0.20 nbformat==5.11.1
#   python make.py
# The standard library writes mail; notes.rtf is written by hand.
import datetime
import email.message

import ebooklib.epub
import nbformat
import openpyxl
import pptx
import xlsxwriter
from odf import meta, dc
from odf.opendocument import OpenDocumentText
from odf.table import Table, TableCell, TableRow
from odf.text import H, LineBreak, List, ListItem, Note, NoteBody, NoteCitation, P, S, Span, Tab


def slides():
    p = pptx.Presentation()
    p.core_properties.title = "Storage engines"
    s = p.slides.add_slide(p.slide_layouts[0])
    s.shapes.title.text = "Log-structured storage"
    s.placeholders[1].text = "A talk about segments"
    s = p.slides.add_slide(p.slide_layouts[1])
    s.shapes.title.text = "Write path"
    body = s.placeholders[1].text_frame
    body.text = "Append to the log"
    for text, level in [("fsync once per group", 1), ("Flush to a segment", 0)]:
        q = body.add_paragraph()
        q.text, q.level = text, level
    s.notes_slide.notes_text_frame.text = "Mention group commit here."
    s = p.slides.add_slide(p.slide_layouts[5])
    s.shapes.title.text = "Sizes"
    t = s.shapes.add_table(2, 2, 0, 0, 4000000, 1000000).table
    for i, row in enumerate([["part", "bytes"], ["segment", "64 | 128"]]):
        for j, text in enumerate(row):
            t.cell(i, j).text = text
    g = s.shapes.add_group_shape()
    g.shapes.add_textbox(0, 0, 100, 100).text_frame.text = "In a group"
    # The last slide becomes the second one: files are numbered by creation, slides by their list.
    ids = p.slides._sldIdLst
    ids.insert(1, ids[2])
    p.save("slides.pptx")


def sheet():
    w = openpyxl.Workbook()
    w.properties.title = "Orders"
    s = w.active
    s.title = "Orders 2024"
    s.append(["Customer", "Date", "Amount", "Paid"])
    s.append(["Ann Müller", datetime.date(2024, 3, 1), 12.5, True])
    s.append(["Bob", datetime.datetime(2024, 3, 2, 14, 30), 1000, False])
    s.append([None, None, "=SUM(C2:C3)", None])
    s["C2"].number_format = "0.00"
    s["A6"] = "after a gap"
    s["C6"] = "third column"
    n = w.create_sheet("Notes")
    n["A1"] = "Deliveries are late\nin March."
    h = w.create_sheet("Secret")
    h["A1"] = "hidden text"
    h.sheet_state = "hidden"
    w.create_sheet("Empty")
    w.save("sheet.xlsx")


def shared():
    w = xlsxwriter.Workbook("shared.xlsx")
    s = w.add_worksheet("Shared strings")
    s.write_row(0, 0, ["Part", "When", "Note"])
    s.write(1, 0, "segment")
    s.write_datetime(1, 1, datetime.datetime(2024, 3, 2, 14, 30), w.add_format({"num_format": 'd mmm yyyy "at" hh:mm'}))
    s.write_rich_string(1, 2, "kept ", w.add_format({"bold": True}), "for ever")
    w.close()


def text():
    d = OpenDocumentText()
    d.meta.addElement(dc.Title(text="Field notes"))
    d.text.addElement(H(outlinelevel=1, text="Field notes"))
    p = P(text="First")
    p.addElement(S(c=2))
    p.addElement(Span(text="words"))
    p.addElement(Tab())
    p.addText("and")
    p.addElement(LineBreak())
    p.addText("more.")
    d.text.addElement(p)
    d.text.addElement(H(outlinelevel=2, text="Birds"))
    outer = List()
    for name in ["Wren", "Crane"]:
        item = ListItem()
        item.addElement(P(text=name))
        if name == "Crane":
            inner = List()
            sub = ListItem()
            sub.addElement(P(text="in autumn"))
            inner.addElement(sub)
            item.addElement(inner)
        outer.addElement(item)
    d.text.addElement(outer)
    t = Table(name="Counts")
    for cells in [["Bird", "Count"], ["Wren", "7"]]:
        row = TableRow()
        for c in cells:
            cell = TableCell()
            cell.addElement(P(text=c))
            row.addElement(cell)
        t.addElement(row)
    empty = TableRow(numberrowsrepeated=1000000)
    empty.addElement(TableCell(numbercolumnsrepeated=16000))
    t.addElement(empty)
    d.text.addElement(t)
    p = P(text="With a note")
    note = Note(noteclass="footnote")
    note.addElement(NoteCitation(text="1"))
    body = NoteBody()
    body.addElement(P(text="seen from the bridge"))
    note.addElement(body)
    p.addElement(note)
    p.addText(".")
    d.text.addElement(p)
    d.save("notes.odt")


def book():
    b = ebooklib.epub.EpubBook()
    b.set_identifier("vecbolt-test")
    b.set_title("A short book")
    b.set_language("en")
    b.add_author("Ann Writer")
    chapters = []
    for i, (title, text) in enumerate([("One", "<p>The first <b>chapter</b>.</p>"), ("Two", "<p>The second.</p><ul><li>a list</li></ul>")]):
        c = ebooklib.epub.EpubHtml(title=title, file_name=f"chapter {i + 1}.xhtml", lang="en")
        c.content = f"<h1>{title}</h1>{text}"
        b.add_item(c)
        chapters.append(c)
    b.toc = chapters
    b.add_item(ebooklib.epub.EpubNcx())
    b.add_item(ebooklib.epub.EpubNav())
    b.spine = ["nav", chapters[1], chapters[0]]
    ebooklib.epub.write_epub("book.epub", b)


def notebook():
    n = nbformat.v4.new_notebook()
    n.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    n.metadata["title"] = "An experiment"
    code = nbformat.v4.new_code_cell("x = [1, 2]\nprint(sum(x))")
    code.outputs = [nbformat.v4.new_output("stream", text="output is left out\n")]
    n.cells = [nbformat.v4.new_markdown_cell("# Sums\n\nAdd two numbers."), code, nbformat.v4.new_raw_cell("raw words")]
    nbformat.write(n, "sums.ipynb")


def mail():
    m = email.message.EmailMessage()
    m["Subject"] = "Größe des Segments"
    m["From"] = "Ann Müller <ann@example.org>"
    m["To"] = "bob@example.org, Carl <carl@example.org>"
    m["Date"] = "Fri, 01 Mar 2024 09:30:00 +0100"
    m.set_content("The segment is 64 MiB.\nGrüße, Ann\n", cte="quoted-printable")
    m.add_alternative("<p>The segment is <b>64 MiB</b>.</p>", subtype="html")
    m.add_attachment(b"\x00\x01", maintype="application", subtype="octet-stream", filename="größe.bin")
    with open("mail.eml", "wb") as f:
        f.write(bytes(m))
    h = email.message.EmailMessage()
    h["Subject"] = "Only HTML"
    h["From"] = "bob@example.org"
    h.set_content("<h1>Hello</h1><p>Caf\u00e9</p>", subtype="html", charset="iso-8859-1", cte="base64")
    with open("html.eml", "wb") as f:
        f.write(bytes(h))


for make in [slides, sheet, shared, text, book, notebook, mail]:
    make()
