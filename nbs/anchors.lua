-- Each definition that a page shows can be linked to, by its name in lower case (`regions`, `regions.add`):
-- that is where nbdev's links from names in backticks lead.
function Pandoc(doc)
  local taken = {}
  local function take(element) if element.identifier ~= "" then taken[element.identifier] = true end end
  doc:walk({ Header = take, Div = take, Span = take, CodeBlock = take })
  return doc:walk({
    CodeBlock = function(block)
      if not block.classes:includes("python") then return nil end
      local anchors, class = pandoc.List(), nil
      for line in block.text:gmatch("[^\n]+") do
        local method = class and line:match("^    def ([%w_]+)")
        if line:match("^%w") then class = line:match("^class ([%w_]+)") end
        local name = class and (method and class .. "." .. method or line:match("^class ([%w_]+)")) or line:match("^def ([%w_]+)")
        local anchor = name and name:lower()
        if anchor and not taken[anchor] then
          taken[anchor] = true
          anchors:insert(pandoc.Span({}, pandoc.Attr(anchor)))
        end
      end
      if #anchors == 0 then return nil end
      return { pandoc.Plain(anchors), block }
    end,
  })
end
